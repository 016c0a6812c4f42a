"use strict";
// What the page holds compressed, as a blob; a browser that cannot unpack it throws.
const unpacked = (text) => {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let at = 0; at < packed.length; at++) packed[at] = letters.charCodeAt(at);
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
};
