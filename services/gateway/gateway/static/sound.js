// Sound: what is streamed, and what is played again.
const WORKLET = "/playground/worklet.js";
let audio = null, player = null, replays = null, again = null;

export const audioRate = () => audio && audio.sampleRate;
export const tell = (message, moved = []) => player && player.port.postMessage(message, moved);

// The context is made and resumed in the click itself: browsers allow sound only there.
export function openAudio(wanted, progress) {
  if (audio && audio.sampleRate === wanted) return audio.resume();
  if (audio) audio.close();
  player = null;
  audio = new AudioContext({ sampleRate: wanted, latencyHint: "interactive" });
  const resumed = audio.resume();
  return makePlayer(audio).then((made) => {
    player = made;
    player.connect(audio.destination);
    player.port.onmessage = ({ data }) => progress(data);
    return resumed;
  });
}

async function makePlayer(context) {
  if (!context.audioWorklet) return plainPlayer(context);
  await context.audioWorklet.addModule(WORKLET);
  return new AudioWorkletNode(context, "player", { numberOfInputs: 0, outputChannelCount: [1] });
}

// Over plain http from another machine there is no AudioWorklet: the same player runs in the page.
async function plainPlayer(context) {
  globalThis.sampleRate = context.sampleRate;
  if (!globalThis.PlainPlayer) await loadPlainPlayer();
  const processor = new globalThis.PlainPlayer(), node = context.createScriptProcessor(1024, 0, 1);
  node.onaudioprocess = ({ outputBuffer }) => {
    const out = outputBuffer.getChannelData(0);
    out.fill(0);
    processor.process([], [[out]]);
  };
  return { port: processor.outer, connect: (to) => node.connect(to) };
}

function loadPlainPlayer() {
  globalThis.AudioWorkletProcessor = class {
    constructor() { const { port1, port2 } = new MessageChannel(); this.port = port1; this.outer = port2; }
  };
  globalThis.registerProcessor = (name, made) => { if (name === "player") globalThis.PlainPlayer = made; };
  return new Promise((resolve, reject) => {
    document.head.append(Object.assign(document.createElement("script"), { src: WORKLET, onload: resolve, onerror: reject }));
  });
}

export function silence() {
  if (again) again.stop();
  again = null;
}

// Plays samples that are here already; `ended` runs once, however it ends.
export function replay(pcm, rate, ended) {
  silence();
  if (!replays) replays = new AudioContext();
  const context = replays;
  const buffer = context.createBuffer(1, pcm.length, rate), out = buffer.getChannelData(0);
  for (let i = 0; i < pcm.length; i++) out[i] = pcm[i] / 32768;
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  source.onended = () => { if (again === source) again = null; ended(); };
  context.resume();
  source.start();
  again = source;
}
