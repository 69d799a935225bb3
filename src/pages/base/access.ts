// Options of the routes of pages: who may open them. The OpenAPI document does not describe pages.

const schema = { hide: true } as const;

/** For pages that every logged-in user may open. */
export const forMembers = { schema, config: { access: { page: 'member' } } } as const;

/** For pages that only admins may open. */
export const forAdmins = { schema, config: { access: { page: 'admin' } } } as const;

/** For pages that need no login. */
export const forAll = { schema, config: { access: { public: true } } } as const;
