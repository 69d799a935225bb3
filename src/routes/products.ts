import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { exportProducts, findProducts, listProducts, productWrites } from '../queries/crm/products.ts';
import { Product, ProductCreate, ProductListItem, ProductPatch, ProductQuery } from '../schemas/products.ts';
import { addRecordLists, recordRoutes } from '../plugins/record-routes.ts';
import { ProductExport } from '../schemas/files.ts';

const products: FastifyPluginAsyncTypebox = async (app) => {
  const kind = { path: '/products', scope: 'products', noun: 'product' } as const;
  const one = recordRoutes(app, kind);

  addRecordLists(app, {
    ...kind,
    schemas: { list: ProductQuery, export: ProductExport, shown: ProductListItem },
    listText: ', each with the number of opportunities and pipelines that use it. The status of success is 201.',
    listStatus: 201, // as the contract requires
    list: listProducts,
    export: exportProducts,
  });

  one.create(ProductCreate, productWrites.create, {
    description:
      'Creates a product. By default it is active and has the currency of the subscription. An `external_id` that ' +
      'another product has is 409.',
    errors: [409],
  });

  one.read(Product, findProducts, { description: 'Returns one product. The header `etag` holds its version.' });

  one.update(ProductPatch, productWrites.update, {
    description:
      'Changes the fields that are sent; others stay. A new price does not change opportunities that use the ' +
      'product: they keep the agreed price. With `If-Match` the product is changed only if it still has that ' +
      'version (else 412).',
    errors: [409],
  });

  one.remove(productWrites.remove, {
    description:
      'Deletes a product. Opportunities keep their lines with its name and price. With `If-Match` it ' +
      'is deleted only if it still has that version (else 412).',
  });
};

export default products;
