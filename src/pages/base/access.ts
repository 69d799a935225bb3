// Options of the routes of pages: who may open them. The OpenAPI document does not describe pages.

/** Most records that a member deletes at once, also by an undo. */
export const memberDeletes = 100;

const schema = { hide: true } as const;

/** Options of a page for logged-in users. */
export interface PageAccess {
  schema: typeof schema;
  config: { access: { page: 'member' | 'admin' } };
}

/** For pages that every logged-in user may open. */
export const forMembers = { schema, config: { access: { page: 'member' } } } as const;

/** For pages that only admins may open. */
export const forAdmins = { schema, config: { access: { page: 'admin' } } } as const;

/** For pages that need no login. */
export const forAll = { schema, config: { access: { public: true } } } as const;
