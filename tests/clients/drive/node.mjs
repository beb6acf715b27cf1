// OpenAI's Node SDK; prints what it received as one line of JSON. `node node.mjs NAME URL MODE`
import { createRequire } from "node:module";

const OpenAI = createRequire(`${process.env.CLIENT_NODE}/`)("openai");
const [name, url, mode] = process.argv.slice(2);
const { CLIENT_KEY: apiKey = "no-key", CLIENT_TEXT: text, CLIENT_LONG: long, CLIENT_SHORT: short } = process.env;
const heard = { seconds: 0, first_s: null, words: [], error: null, cut_s: 0, stray_s: 0 };
const began = performance.now();

const client = (maxRetries) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries });

function audio(bytes) {
  heard.first_s ??= (performance.now() - began) / 1000;
  heard.seconds += bytes / 48000;
}

async function pcm(input, { until = Infinity, retries = 0 } = {}) {
  const stop = new AbortController();
  const response = await client(retries).audio.speech.create(
    { model: "gpt-4o-mini-tts", voice: "ash", input, response_format: "pcm" },
    { signal: stop.signal },
  );
  let got = 0;
  try {
    for await (const part of response.body) {
      audio(part.length);
      if ((got += part.length / 48000) >= until) stop.abort();
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  }
}

async function wav(input, { retries = 0 } = {}) {
  const response = await client(retries).audio.speech.create({
    model: "tts-1", voice: "alloy", input, response_format: "wav",
  });
  audio((await response.arrayBuffer()).byteLength - 44);
}

async function errors() {
  const found = [];
  for (const change of [{ model: "nobody" }, { speed: 9 }, { input: "" }, { voice: "hal" }]) {
    const body = { model: "tts-1", voice: "alloy", input: text, ...change };
    await client(0).audio.speech.create(body).catch((error) => {
      if (!(error instanceof OpenAI.APIError)) throw error;
      found.push(`${error.constructor.name}:${error.code}`);
    });
  }
  heard.error = found.join(" ");
}

const driver = { node_pcm: pcm, node_wav: wav, node_errors: errors }[name];
if (mode === "twice") {
  await Promise.all([driver(text, { retries: 8 }), driver(text, { retries: 8 })]);
} else if (mode === "interrupt") {
  await driver(long, { until: 0.2 });
  [heard.cut_s, heard.seconds] = [heard.seconds, 0];
  await driver(short);
} else {
  await driver(text).catch((error) => (heard.error = error.constructor.name));
}
console.log(JSON.stringify(heard));
