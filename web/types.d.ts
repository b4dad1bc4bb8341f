/* types.d.ts -- what the browser has and TypeScript 4.8 does not know. */
declare class DecompressionStream implements ReadableWritablePair<Uint8Array, BufferSource> {
  constructor(format: "deflate-raw");
  readable: ReadableStream<Uint8Array>;
  writable: WritableStream<BufferSource>;
}
