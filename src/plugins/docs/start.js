// Runs in the browser, before the renderer of the documentation.

// The content security policy forbids styles that a script adds, unless they have the nonce of the page.
const { nonce } = document.currentScript;
const createElement = document.createElement.bind(document);
document.createElement = (name, options) => {
  const element = createElement(name, options);
  if (element instanceof HTMLStyleElement) element.nonce = nonce;
  return element;
};

// The renderer contains zod, which would try to compile code at run time. The policy forbids that too.
Object.assign(globalThis, { __zod_globalConfig: { jitless: true } });

document.addEventListener('DOMContentLoaded', () => {
  globalThis.Scalar.createApiReference('#documentation', {
    url: '/openapi.json',
    theme: 'none',
    withDefaultFonts: false,
    telemetry: false,
    persistAuth: false, // keys stay in the memory of the page
    hideClientButton: true,
    showDeveloperTools: 'never',
    agent: { disabled: true },
    mcp: { disabled: true },
    documentDownloadType: 'json',
    defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
    authentication: {
      preferredSecurityScheme: 'apiKey',
      securitySchemes: { apiKey: { value: 'X-API-Key ' } },
    },
  });
});
