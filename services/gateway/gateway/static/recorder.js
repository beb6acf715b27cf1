// A voice made of the microphone, or of a file, with the speaker's consent.
import { ask } from "./access.js";
import { $, complain } from "./dom.js";
import { wav } from "./files.js";
import { replay, silence } from "./sound.js";

const MOST_S = 30, LEAST_S = 1;
let recording = null;  // while the microphone is open
let taken = null;      // { parts, rate }: what was recorded last

const state = (text) => { $("voice-state").textContent = text; };

export function offer(model) {
  $("recorder").hidden = !model.accepts.includes("ref_audio");
  $("record").hidden = !navigator.mediaDevices;
  if (!navigator.mediaDevices) state("Browsers open the microphone over https or on this machine only: choose a file.");
}

async function open() {
  const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const stream = await navigator.mediaDevices.getUserMedia({ audio });
  const context = new AudioContext();
  await context.audioWorklet.addModule("/playground/worklet.js");
  const node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
  context.createMediaStreamSource(stream).connect(node);
  recording = { stream, context, parts: [], samples: 0 };
  node.port.onmessage = ({ data }) => gather(data);
}

function gather(block) {
  if (!recording) return;
  recording.parts.push(Int16Array.from(block, (value) => Math.max(-32768, Math.min(32767, Math.round(value * 32768)))));
  recording.samples += block.length;
  const length = recording.samples / recording.context.sampleRate;
  state(`Recording: ${length.toFixed(1)} s of at most ${MOST_S}`);
  if (length >= MOST_S - 0.1) close();
}

function close() {
  const { stream, context, parts, samples } = recording;
  taken = { parts, rate: context.sampleRate, length: samples / context.sampleRate };
  recording = null;
  for (const track of stream.getTracks()) track.stop();
  context.close();
  $("record").textContent = "Record again";
  $("hear").disabled = false;
  $("voice-file").value = "";
  state(taken.length < LEAST_S ? `At least ${LEAST_S} s is needed: record again.` : `${taken.length.toFixed(1)} s recorded.`);
  allow();
}

function allow() {
  $("make-voice").disabled = !$("voice-file").files.length && !(taken && taken.length >= LEAST_S);
}

async function record() {
  if (recording) return close();
  silence();
  try {
    await open();
    $("record").textContent = "Stop recording";
  } catch (error) {
    state(`The microphone is not open: ${error.message}`);
  }
}

function hear() {
  const whole = new Int16Array(taken.parts.reduce((sum, part) => sum + part.length, 0));
  taken.parts.reduce((at, part) => { whole.set(part, at); return at + part.length; }, 0);
  replay(whole, taken.rate, () => {});
}

function form() {
  const sent = new FormData(), [file] = $("voice-file").files;
  sent.append("name", $("voice-name").value.trim());
  sent.append("consent", $("voice-consent").value.trim());
  sent.append("ref_text", $("voice-says").value.trim());
  sent.append("audio_sample", file || wav(taken.parts, taken.rate), file ? file.name : "recording.wav");
  return sent;
}

async function make(made) {
  $("make-voice").disabled = true;
  state("Making the voice.");
  try {
    await ask("/v1/audio/voices", { method: "POST", body: form() });
    state(`The voice ${$("voice-name").value.trim()} is made and chosen.`);
    await made($("voice-name").value.trim());
  } catch (error) {
    state(error.message);
  }
  allow();
}

export async function remove(name, removed) {
  try {
    await ask(`/v1/audio/voices/${encodeURIComponent(name)}`, { method: "DELETE" });
    await removed();
  } catch (error) {
    complain(error.message);
  }
}

function word() {
  const name = $("voice-name").value.trim() || "(name)";
  $("voice-consent").value = `I, ${name}, agree that this recording of my voice is kept here and used to make synthetic speech that sounds like me.`;
}

// `made` runs with the name of each new voice.
export function listen(made) {
  let own = false;
  word();
  $("voice-consent").oninput = () => { own = true; };
  $("voice-name").oninput = () => { if (!own) word(); };
  $("voice-file").onchange = allow;
  $("record").onclick = record;
  $("hear").onclick = hear;
  $("voice-form").onsubmit = (event) => { event.preventDefault(); make(made); };
}
