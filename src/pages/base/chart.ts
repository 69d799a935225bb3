import { count, html, type Html } from './html.ts';

export interface Bar {
  name: string;
  value: number;
}

const width = 420;
const height = 130;
const top = 22;
const bottom = 20;

/**
 * Returns an SVG element.
 * @param label describes the chart to screen readers
 */
export function barChart(label: string, bars: readonly Bar[]): Html {
  const highest = Math.max(...bars.map(({ value }) => value), 0);
  const step = width / bars.length;
  const ground = height - bottom;
  const barOf = ({ name, value }: Bar, i: number): Html => {
    const size = value === 0 ? 2 : Math.max(3, (value / highest) * (ground - top));
    return html`<rect
      x="${round(i * step + step * 0.15)}"
      y="${round(ground - size)}"
      width="${round(step * 0.7)}"
      height="${round(size)}"
      rx="2"
      !${value === 0 ? 'class="none"' : ''}
    >
      <title>${name}: ${count(value)}</title>
    </rect>`;
  };
  const first = bars[0]!.name;
  const last = bars.at(-1)!.name;
  return html`<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}">
    !${highest > 0 ? html`<text x="0" y="12">most on one day: ${count(highest)}</text>` : ''} !${bars.map(barOf)}
    <line x1="0" y1="${ground}" x2="${width}" y2="${ground}" />
    <text x="0" y="${height - 4}">${first}</text>
    <text x="${width}" y="${height - 4}" text-anchor="end">${last}</text>
  </svg>`;
}

const round = (value: number): number => Math.round(value * 10) / 10;
