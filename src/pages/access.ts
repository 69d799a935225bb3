// Options of the routes of pages: who may open them. The OpenAPI document does not describe pages.

const schema = { hide: true } as const;

/** For every logged-in user. */
export const forMembers = { schema, config: { access: { page: 'member' } } } as const;

/** For logged-in admins. */
export const forAdmins = { schema, config: { access: { page: 'admin' } } } as const;

/** For everybody. */
export const forAll = { schema, config: { access: { public: true } } } as const;
