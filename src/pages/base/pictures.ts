import { html } from 'ghtml';

/** Line drawings of 48 × 48 units. The style sheet gives them their colours, and their strokes a width of 2. */
const drawings = {
  people:
    '<circle cx="18" cy="17" r="7"/><path d="M5 40c0-8 6-13 13-13s13 5 13 13"/><path d="M31 11a7 7 0 0 1 0 13M35 29c5 2 8 6 8 11"/>',
  company: '<path d="M8 42V12l16-6v36M24 18l16 5v19M4 42h40"/><path d="M14 18v2m0 7v2m0 6v2m18-11v2m0 6v2"/>',
  list: '<rect x="9" y="6" width="30" height="36" rx="4"/><path d="m15 17 2 2 4-4M15 28l2 2 4-4M26 18h7M26 29h7"/>',
  deal: '<rect x="5" y="8" width="10" height="32" rx="3"/><rect x="19" y="8" width="10" height="20" rx="3"/><rect x="33" y="8" width="10" height="26" rx="3"/>',
  search: '<circle cx="21" cy="21" r="13"/><path d="m31 31 12 12M15 21h12"/>',
  twins:
    '<rect x="6" y="10" width="22" height="28" rx="4"/><path d="M28 14h10a4 4 0 0 1 4 4v16a4 4 0 0 1-4 4H28M12 20h10M12 27h6"/>',
  file: '<path d="M12 5h16l10 10v28H12zM28 5v10h10"/><path d="M25 37V22m-6 6 6-6 6 6"/>',
  job: '<circle cx="24" cy="24" r="9"/><path d="M24 5v6m0 26v6M5 24h6m26 0h6M10.6 10.6l4.2 4.2m18.4 18.4 4.2 4.2m0-26.8-4.2 4.2M14.8 33.2l-4.2 4.2"/>',
  coins:
    '<ellipse cx="20" cy="13" rx="13" ry="6"/><path d="M7 13v10c0 3.3 5.8 6 13 6 1.4 0 2.7-.1 4-.3M7 23v10c0 3.3 5.8 6 13 6h3"/><circle cx="34" cy="34" r="9"/>',
  key: '<circle cx="15" cy="31" r="9"/><path d="m22 25 19-19m-7 7 6 6m-13 1 5 5"/>',
  hook: '<circle cx="12" cy="34" r="6"/><circle cx="36" cy="34" r="6"/><circle cx="24" cy="11" r="6"/><path d="M18 34h12M21 16l-7 12M27 16l7 12"/>',
  clock: '<circle cx="24" cy="24" r="18"/><path d="M24 13v11l8 5"/>',
  done: '<circle cx="24" cy="24" r="18"/><path d="m15 25 6 6 12-13"/>',
} as const;

/** Names what is missing in the list. */
export type PictureName = keyof typeof drawings;

/** Returns a drawing that stands above the text of an empty list. Screen readers skip it. */
export const picture = (name: PictureName): string =>
  html`<svg class="picture" viewBox="0 0 48 48" aria-hidden="true">!${drawings[name]}</svg>`;
