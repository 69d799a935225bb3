/** The records whose changes make events. Each has the events `….created`, `….updated` and `….deleted`. */
export const eventNouns = ['contact', 'company', 'list', 'product', 'opportunity'] as const;
export type EventNoun = (typeof eventNouns)[number];

/** All types of events. */
export const eventTypes = [
  ...eventNouns.flatMap((noun) => [`${noun}.created`, `${noun}.updated`, `${noun}.deleted`] as const),
  'job.ended',
  'import.ended',
  'credits.low',
  'prospect.removed',
] as const satisfies readonly string[];
export type EventType = (typeof eventTypes)[number];

/** What made a change. */
export const eventSources = ['api', 'page', 'import', 'job', 'command'] as const;
export type EventSource = (typeof eventSources)[number];
