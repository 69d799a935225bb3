import { SaxesParser } from 'saxes';
import { TimeSlice } from '../../process/event-loop.ts';
import { FileRefused } from '../file-refused.ts';
import { maxRecordBytes } from '../raw-records.ts';

/** Names are without the prefix of their namespace. */
export interface XmlHandler {
  open?(name: string, attributes: Record<string, string>): void;
  close?(name: string): void;
  text?(text: string): void;
}

/**
 * Characters that are parsed at once. Few, because each can stand for a row of 1 MiB: cells name texts that they share.
 */
const pieceLength = 1024;
const maxDepth = 100;

const localName = (name: string): string => name.slice(name.indexOf(':') + 1);

/**
 * Parses XML, and yields after each piece, so that the caller can take what the handler has found. Entities of a
 * document are never read: a document type declaration is refused.
 * @throws FileRefused if the text is not UTF-8 or not well-formed, or nested too deep, or if a single text or tag is too long
 */
export async function* parseXml(chunks: AsyncIterable<Buffer>, handler: XmlHandler): AsyncGenerator<void> {
  const slice = new TimeSlice();
  // Replacements of invalid bytes would be longer than these, and the shared texts have no room for that.
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const parser = new SaxesParser({ position: false });
  /** Characters since the last event: the parser holds them. */
  let held = 0;
  let depth = 0;
  parser.on('error', () => {
    throw damaged();
  });
  parser.on('doctype', () => {
    throw new FileRefused('has a document type declaration, which no Excel file has');
  });
  parser.on('opentag', ({ name, attributes }) => {
    held = 0;
    depth += 1;
    if (depth > maxDepth) throw new FileRefused('is not an XLSX file: it is nested too deep');
    handler.open?.(localName(name), attributes as Record<string, string>);
  });
  parser.on('closetag', ({ name }) => {
    held = 0;
    depth -= 1;
    handler.close?.(localName(name));
  });
  const onText = (text: string): void => {
    held = 0;
    handler.text?.(text);
  };
  parser.on('text', onText);
  parser.on('cdata', onText);
  for await (const chunk of chunks) {
    const text = decodeNext(decoder, chunk);
    for (let at = 0; at < text.length; at += pieceLength) {
      parser.write(text.slice(at, at + pieceLength));
      held += pieceLength;
      if (held > maxRecordBytes) throw new FileRefused('has a cell that is larger than 1 MiB');
      yield;
      if (slice.isOver) await slice.pause();
    }
  }
  decodeNext(decoder);
  parser.close();
  yield;
}

const damaged = (): FileRefused =>
  new FileRefused('is not an XLSX file, or damaged', undefined, 'open it in a spreadsheet program and save it again');

/**
 * @param chunk undefined: the text ends
 * @throws FileRefused if the bytes are not UTF-8
 */
function decodeNext(decoder: InstanceType<typeof TextDecoder>, chunk?: Buffer): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined });
  } catch {
    throw damaged();
  }
}

/** Parses XML to its end. */
export async function readXml(chunks: AsyncIterable<Buffer>, handler: XmlHandler): Promise<void> {
  for await (const _ of parseXml(chunks, handler));
}
