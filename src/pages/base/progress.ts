import type { ImportStatus } from '../../schemas/imports.ts';
import type { ItemStatus, JobStatus } from '../../schemas/jobs.ts';
import { badge, count, html, type Html, type Tone } from './html.ts';

const tones: Record<ImportStatus | JobStatus | ItemStatus, Tone> = {
  UPLOADING: 'busy',
  UPLOADED: 'warning',
  PENDING: 'busy',
  PROCESSING: 'busy',
  COMPLETED: 'good',
  FAILED: 'bad',
  CANCELLED: 'plain',
  succeeded: 'good',
  failed: 'bad',
  skipped: 'plain',
};

/** What people call a status whose name does not say what to do. */
const words: Partial<Record<keyof typeof tones, string>> = { UPLOADING: 'no file yet', UPLOADED: 'not started' };

/** For jobs, job items and imports. */
export const statusBadge = (status: keyof typeof tones): Html =>
  badge(words[status] ?? status.toLowerCase(), tones[status]);

/** @param total null while it is unknown */
export function progressBar({ processed, total }: { processed: number; total: number | null }, noun: string): Html {
  const label = total === null ? `${count(processed)} ${noun}` : `${count(processed)} of ${count(total)} ${noun}`;
  return html`<p>
    <progress aria-label="Progress" max="${Math.max(1, total ?? 1)}" value="${total === 0 ? 1 : processed}"></progress>
    <span>${label}</span>
  </p>`;
}
