import { count, html, type Html } from './html.ts';

export interface Bar {
  name: string;
  value: number;
}

const width = 420;
const height = 140;
const left = 44;
const top = 10;
const ground = height - 20;

/**
 * Returns an SVG element: bars, a scale at the left, and the names of the first and the last bar below.
 * @param label describes the chart to screen readers
 */
export function barChart(label: string, bars: readonly Bar[]): Html {
  const most = topOf(Math.max(...bars.map(({ value }) => value)));
  const step = (width - left) / bars.length;
  const y = (value: number): number => round(ground - (value / most) * (ground - top));
  const barOf = ({ name, value }: Bar, i: number): Html => {
    const size = value === 0 ? 1 : Math.max(3, ground - y(value));
    return html`<rect
      x="${round(left + i * step + step * 0.15)}"
      y="${round(ground - size)}"
      width="${round(step * 0.7)}"
      height="${round(size)}"
      rx="2"
      !${value === 0 ? 'class="none"' : ''}
    >
      <title>${name}: ${count(value)}</title>
    </rect>`;
  };
  const markOf = (value: number): Html =>
    html`<line x1="${left}" y1="${y(value)}" x2="${width}" y2="${y(value)}" />
      <text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${scale.format(value)}</text>`;
  return html`<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}">
    !${(most === 1 ? [0, 1] : [0, most / 2, most]).map(markOf)} !${bars.map(barOf)}
    <text x="${left}" y="${height - 4}">${bars[0]!.name}</text>
    <text x="${width}" y="${height - 4}" text-anchor="end">${bars.at(-1)!.name}</text>
  </svg>`;
}

const scale = new Intl.NumberFormat('en-GB', { notation: 'compact' });

/** Returns the top of a scale: the next number of the form 1, 2, 4 or 10, 20, 40 …, whose half can be read too. */
function topOf(highest: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, highest)));
  return [1, 2, 4, 10].map((factor) => factor * power).find((one) => one >= highest)!;
}

const round = (value: number): number => Math.round(value * 10) / 10;
