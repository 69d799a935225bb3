import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const here = import.meta.dirname;

/** What a node is started from. */
export interface Installation {
  java: string;
  classpath: string;
  modules: string;
}

const oldestJdk = 21;

/** What is missing to run Elasticsearch here, in words for a person, without brackets; undefined when nothing is. */
export async function missing(): Promise<string | undefined> {
  const needed = [
    findJdk() ? undefined : `a JDK ${oldestJdk} or newer, at JAVA_HOME or beside the javac on PATH`,
    existsSync(await installationFolder()) || onPath('mvn') ? undefined : 'Maven, once, to fetch Elasticsearch',
  ].filter((one) => one !== undefined);
  return needed.length > 0 ? needed.join(', and ') : undefined;
}

/**
 * Elasticsearch from Maven Central, laid out as a node expects it; once per version, for all working copies.
 * @throws Error saying what is missing
 */
export async function install(): Promise<Installation> {
  const lack = await missing();
  if (lack) throw new Error(`Elasticsearch needs ${lack}`);
  const jdk = findJdk()!;
  const folder = await installationFolder();
  if (!existsSync(folder)) await build(jdk, folder);
  const classpath = [join(folder, 'classes'), join(folder, 'lib', '*')].join(delimiter);
  return { java: join(jdk, 'bin', 'java'), classpath, modules: join(folder, 'modules') };
}

async function installationFolder(): Promise<string> {
  const sources = await Promise.all(
    ['pom.xml', 'TestNode.java', 'install.ts'].map((name) => readFile(join(here, name))),
  );
  const stamp = createHash('sha256').update(Buffer.concat(sources)).digest('hex').slice(0, 16);
  return join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'sales-data-api', `elasticsearch-${stamp}`);
}

/** Built beside its place and moved there whole, so that two at once do no harm. */
async function build(jdk: string, folder: string): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const building = await mkdtemp(`${folder}.`);
  const [lib, classes] = [join(building, 'lib'), join(building, 'classes')];
  await run('mvn', [
    '-q',
    '-B',
    '-f',
    join(here, 'pom.xml'),
    'dependency:copy-dependencies',
    `-DoutputDirectory=${lib}`,
  ]);
  await run(join(jdk, 'bin', 'javac'), ['-cp', join(lib, '*'), '-d', classes, join(here, 'TestNode.java')]);
  await makeModule(building);
  await rename(building, folder).catch(async (error: NodeJS.ErrnoException) => {
    await rm(building, { recursive: true });
    if (!existsSync(folder)) throw error;
  });
}

/** The transport over sockets is a module: jars in a folder of their own, with a description. */
async function makeModule(building: string): Promise<void> {
  const module = join(building, 'modules', 'transport-netty4');
  await mkdir(module, { recursive: true });
  const jars = (await readdir(join(building, 'lib'))).filter((jar) => /^(transport-netty4|netty)-/.test(jar));
  await Promise.all(jars.map((jar) => rename(join(building, 'lib', jar), join(module, jar))));
  const version = /transport-netty4-(.*)\.jar/.exec(jars.join(' '))![1]!.split('.jar')[0]!;
  const description = {
    name: 'transport-netty4',
    description: 'transport and HTTP over netty',
    version,
    'elasticsearch.version': version,
    'java.version': String(oldestJdk),
    classname: 'org.elasticsearch.transport.netty4.Netty4Plugin',
    'extended.plugins': '',
    'has.native.controller': 'false',
  };
  const lines = Object.entries(description).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(join(module, 'plugin-descriptor.properties'), lines.join(''));
}

/** The newest JDK among JAVA_HOME, the one on PATH, and those installed beside it. */
function findJdk(): string | undefined {
  const javac = onPath('javac');
  const homeOfJavac = javac && dirname(dirname(realpathSync(javac)));
  const beside = homeOfJavac ? readdirSync(dirname(homeOfJavac)).map((name) => join(dirname(homeOfJavac), name)) : [];
  const homes = [process.env['JAVA_HOME'], homeOfJavac, ...beside].filter(
    (home) => home && existsSync(join(home, 'bin', 'javac')),
  );
  const [newest] = homes
    .map((home) => ({ home, version: versionOf(home!) }))
    .sort((one, other) => other.version - one.version);
  return newest && newest.version >= oldestJdk ? newest.home : undefined;
}

function versionOf(home: string): number {
  const file = join(home, 'release'); // every JDK has one
  return existsSync(file) ? Number(/^JAVA_VERSION="(\d+)/m.exec(readFileSync(file, 'utf8'))?.[1] ?? 0) : 0;
}

const onPath = (program: string): string | undefined =>
  (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, program)).find((path) => existsSync(path)); // prettier-ignore
