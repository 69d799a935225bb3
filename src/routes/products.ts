import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { notFound } from '../errors.ts';
import { etagOf } from '../etag.ts';
import { updateProduct, createProduct, deleteProduct, findProducts, listProducts } from '../queries/products.ts';
import { Product, ProductCreate, ProductListItem, ProductPatch } from '../schemas/products.ts';
import { done, DoneWithId, ErrorBody, IdParams, PageQuery } from '../schemas/wire.ts';

const tags = ['products'];

/** Routes for the products of a customer. */
const products: FastifyPluginAsyncTypebox = async (app) => {
  // Listing answers with 201, as the contract requires.
  app.post(
    '/products/list',
    {
      config: { access: { scope: 'products:read' } },
      schema: { summary: 'List products', tags, body: PageQuery, response: { 201: Type.Array(ProductListItem) } },
    },
    async ({ db, caller, body }, reply) => {
      const rows = await db.search((sql) => listProducts(sql, caller.customerId, body.paginate));
      return reply.code(201).send(rows);
    },
  );

  app.post(
    '/products',
    {
      config: { access: { scope: 'products:create' }, idempotent: true },
      schema: { summary: 'Create a product', tags, body: ProductCreate, response: { 201: DoneWithId } },
    },
    async (request, reply) =>
      app.once(request, reply, async (sql) => {
        const id = await createProduct(sql, request.caller.customerId, request.body);
        return { status: 201, body: done('Product created', id) };
      }),
  );

  app.get(
    '/products/:id',
    {
      config: { access: { scope: 'products:read' }, etag: true, record: findProducts },
      schema: { summary: 'Read a product', tags, params: IdParams, response: { 200: Product } },
    },
    async (request, reply) => {
      const product = await request.record(findProducts);
      if (!product) throw notFound('product');
      return reply.header('etag', etagOf(product)).send(product);
    },
  );

  app.patch(
    '/products/:id',
    {
      config: { access: { scope: 'products:update' } },
      schema: {
        summary: 'Update a product',
        tags,
        params: IdParams,
        body: ProductPatch,
        response: { 200: DoneWithId, 412: ErrorBody },
      },
    },
    async ({ db, caller, params, body, headers }) => {
      await db.transaction((sql) => updateProduct(sql, caller.customerId, params.id, body, headers['if-match']));
      return done('Product updated', params.id);
    },
  );

  app.delete(
    '/products/:id',
    {
      config: { access: { scope: 'products:delete' } },
      schema: { summary: 'Delete a product', tags, params: IdParams, response: { 200: DoneWithId, 412: ErrorBody } },
    },
    async ({ db, caller, params, headers }) => {
      await db.transaction((sql) => deleteProduct(sql, caller.customerId, params.id, headers['if-match']));
      return done('Product deleted', params.id);
    },
  );
};

export default products;
