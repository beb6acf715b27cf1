// What a listener can take home: WAV and subtitles.

// `parts`: blocks of 16-bit samples. `comment`: what the file says of them.
export function wav(parts, rate, comment = "") {
  const bytes = parts.reduce((sum, part) => sum + part.byteLength, 0), info = comment ? infoChunk(comment) : new Uint8Array();
  const view = new DataView(new ArrayBuffer(36)), data = new DataView(new ArrayBuffer(8));
  put(view, 0, "RIFF"); view.setUint32(4, 36 + info.length + bytes, true); put(view, 8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  put(data, 0, "data"); data.setUint32(4, bytes, true);
  return new Blob([view, info, data, ...parts], { type: "audio/wav" });
}

function infoChunk(comment) {
  const text = new TextEncoder().encode(`${comment}\0`), size = text.length + text.length % 2;
  const view = new DataView(new ArrayBuffer(20 + size));
  put(view, 0, "LIST"); view.setUint32(4, 12 + size, true); put(view, 8, "INFOICMT"); view.setUint32(16, text.length, true);
  new Uint8Array(view.buffer).set(text, 20);
  return new Uint8Array(view.buffer);
}

const put = (view, at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));

const SOURCES = "http://cv.iptc.org/newscodes/digitalsourcetype/";

// The comment of the gateway's own files, by what an `audio.start` says of its sound.
export function origin({ model, digital_source_type: source, generated_by: by }) {
  return source ? `Synthetic speech [DigitalSourceType=${SOURCES}${source}; AISystemUsed=Antiphon ${model}${by ? `; GeneratedBy=${by}` : ""}]` : "";
}

const LINE = 42, GAP_S = 0.6;  // characters that are read at a glance; silence that parts two cues

// WebVTT of words with `word`, `start_s` and `end_s`.
export function subtitles(words) {
  const cues = lines(words).map((line) =>
    `${time(line[0].start_s)} --> ${time(line.at(-1).end_s)}\n${escaped(line.map(({ word }) => word).join(" "))}\n`);
  return ["WEBVTT\n", ...cues].join("\n");
}

function lines(words) {
  const found = [];
  for (const word of words) {
    const line = found.at(-1);
    if (line && belongs(line, word)) line.push(word); else found.push([word]);
  }
  return found;
}

function belongs(line, { word, start_s }) {
  const length = line.reduce((sum, each) => sum + each.word.length + 1, word.length), last = line.at(-1);
  return length <= LINE && start_s - last.end_s < GAP_S && !/[.!?]$/.test(last.word);
}

function time(s) {
  const ms = Math.round(s * 1000), two = (value) => String(Math.floor(value)).padStart(2, "0");
  return `${two(ms / 3600000)}:${two(ms / 60000 % 60)}:${two(ms / 1000 % 60)}.${String(ms % 1000).padStart(3, "0")}`;
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
