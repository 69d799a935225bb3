import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { notFound } from '../errors.ts';
import { etagOf } from '../text/etag.ts';
import { updateProduct, createProduct, deleteProduct, findProducts, listProducts } from '../queries/sales/products.ts';
import { Product, ProductCreate, ProductListItem, ProductPatch } from '../schemas/products.ts';
import { done, DoneWithId, ErrorBody, IdParams, PageQuery } from '../schemas/base/wire.ts';

const tags = ['products'];

const products: FastifyPluginAsyncTypebox = async (app) => {
  // Listing answers with 201, as the contract requires.
  app.post(
    '/products/list',
    {
      config: { access: { scope: 'products:read' } },
      schema: {
        operationId: 'listProducts',
        summary: 'List products',
        description:
          'Returns one page of the products, newest first, each with the number of opportunities and pipelines that ' +
          'use it. The status of success is 201.',
        tags,
        body: PageQuery,
        response: { 201: Type.Array(ProductListItem) },
      },
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
      schema: {
        operationId: 'createProduct',
        summary: 'Create a product',
        description: 'Creates a product. By default it is active and has the currency of the subscription.',
        tags,
        body: ProductCreate,
        response: { 201: DoneWithId },
      },
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
      schema: {
        operationId: 'getProduct',
        summary: 'Read a product',
        description: 'Returns one product. The header `etag` holds its version.',
        tags,
        params: IdParams,
        response: { 200: Product },
      },
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
        operationId: 'updateProduct',
        summary: 'Update a product',
        description:
          'Changes the fields that are sent; others stay. A new price does not change opportunities that use the ' +
          'product: they keep the agreed price. With `If-Match` the product is changed only if it still has that ' +
          'version (else 412).',
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
      schema: {
        operationId: 'deleteProduct',
        summary: 'Delete a product',
        description:
          'Deletes a product for good. Opportunities keep their lines with its name and price. With `If-Match` it ' +
          'is deleted only if it still has that version (else 412).',
        tags,
        params: IdParams,
        response: { 200: DoneWithId, 412: ErrorBody },
      },
    },
    async ({ db, caller, params, headers }) => {
      await db.transaction((sql) => deleteProduct(sql, caller.customerId, params.id, headers['if-match']));
      return done('Product deleted', params.id);
    },
  );
};

export default products;
