/** A response that came over a socket. Tests read any field of its body. */
export interface HttpAnswer {
  status: number;
  headers: Headers;
  body: any; // eslint-disable-line typescript/no-explicit-any
}

/** Where requests are sent, and the API key that they have. */
export interface Target {
  url: string | undefined;
  key: string;
}

/** Sends a request to a running service. A text is sent as a file, anything else as JSON. */
export async function sendTo(
  { url, key }: Target,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<HttpAnswer> {
  const isFile = typeof body === 'string';
  const answer = await fetch(`${url}/api/ext${path}`, {
    method,
    headers: {
      authorization: `X-API-Key ${key}`,
      connection: 'close', // a busy machine may be late to see that an idle connection was closed
      'content-type': isFile ? 'application/octet-stream' : 'application/json',
      ...headers,
    },
    ...(body === undefined ? {} : { body: isFile ? body : JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  });
  const isJson = answer.headers.get('content-type')?.includes('application/json');
  return { status: answer.status, headers: answer.headers, body: isJson ? await answer.json() : await answer.text() };
}
