import { execFileSync } from 'node:child_process';

/** The parts of the project that a commit's subject can name. */
const areas = new Set(
  `accounts activities agents alerts api approvals auth batches bench catalog changes chaos ci citus clients commands
  companies compose config contacts contract credits database demo deploy docs embedded enrichment events exports fields
  files filters history image imports jobs limits lists log merges messages metrics openapi opportunities pages patches privacy
  products proxy queries readiness records release sales schemas tests text undo unlocks users validation verification
  webhooks`.split(/\s+/),
);

const maxLength = 72;
/** Older commits are left as they are. */
const checkedCommits = 10;

const isRight = (subject: string): boolean => {
  const [, named] = /^([a-z, ]+): \S/.exec(subject) ?? [];
  return named !== undefined && subject.length <= maxLength && named.split(', ').every((area) => areas.has(area));
};

/** The newest commits' subjects, or none where the folder is no clone. */
function subjects(): string[] {
  try {
    const log = ['log', '--no-merges', `-${checkedCommits}`, '--format=%s'];
    return execFileSync('git', log, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .trim()
      .split('\n');
  } catch {
    return [];
  }
}

const wrong = subjects().filter((subject) => !isRight(subject));
if (wrong.length > 0) {
  const areaList = [...areas].join(', ');
  process.stderr.write(
    `A commit's subject is "area: imperative", at most ${maxLength} characters:\n${wrong.join('\n')}\nAreas: ${areaList}\n`,
  );
  process.exitCode = 1;
}
