// The page: what can be chosen, and what happens on it.
import * as access from "./access.js";
import { $, complain, fill, now, show } from "./dom.js";
import * as recorder from "./recorder.js";
import * as snippets from "./snippets.js";
import { disconnect } from "./socket.js";
import { repaint, speak, stop } from "./speech.js";
import * as takes from "./takes.js";

const EXAMPLES = {
  "a greeting": "Hello! Thanks for calling. How can I help you today?",
  "numbers": "Your order of 3 items comes to $42.50 and arrives on March 3rd, 2027, at 10:45.",
  "a pause": 'Let me think.<break time="800ms"/> Yes, that should work.',
  "a story": "Long before the lighthouse was built, the fishermen told of a light beneath the water. Nobody believed them, until one winter night it rose.",
};
const models = new Map();
let own = new Set();  // voices that this key made
let again = 0;

const list = async (path) => (await access.ask(path)).json();

// Voices and models, from whatever is alive

async function discover(wanted) {
  clearTimeout(again);
  try {
    const ready = await access.admitted();
    await discoverModels();
    await discoverVoices(wanted);
    if (!now.run) allow(ready);
    complain("");
  } catch (error) {
    complain(error.message);
    $("go").disabled = $("preview").disabled = true;
    again = setTimeout(() => discover(), 1500);
  }
  snippets.hint();
}

function allow(ready) {
  $("go").disabled = $("preview").disabled = !ready;
  if (ready) show("ready");
}

async function discoverModels() {
  const found = (await list("/v1/models")).data;
  if (!found.length) throw new Error("no talker is running yet");
  models.clear();
  for (const model of found) models.set(model.id, model);
  fill($("model"), found.map(({ id }) => [id, id]), $("model").value);
  adapt(models.get($("model").value));
}

function adapt(model) {
  const offered = model.accepts.includes("language") ? model.languages : [];
  $("language-of").hidden = !offered.length;
  fill($("language"), [["", "as the voice"], ...offered.map((name) => [name, name])], $("language").value);
  recorder.offer(model);
}

async function discoverVoices(wanted) {
  const { voices, uploaded_voices: uploaded } = await list(`/v1/audio/voices?model=${encodeURIComponent($("model").value)}`);
  const mine = models.get($("model").value).accepts.includes("ref_audio") ? uploaded.map(({ name }) => name) : [];
  own = new Set(mine);
  const spoken = [...new Set(voices.map((v) => v.language))];
  voices.sort((one, other) => spoken.indexOf(one.language) - spoken.indexOf(other.language));
  const options = [...voices.map((v) => [v.id, `${v.name} (${[v.language, v.gender].filter(Boolean).join(", ")})`]), ...mine.map((name) => [name, `${name} (yours)`])];
  fill($("voice"), options, wanted || $("voice").value);
  fill($("other"), [["", "no other voice"], ...options], $("other").value);
  chosen();
}

function chosen() {
  $("delete-voice").hidden = !own.has($("voice").value);
  snippets.hint();
}

// Speaking: one voice, or two after each other

function wish(voice, seed) {
  const asked = { model: $("model").value, voice, seed };
  if (Number($("speed-range").value) !== 1) asked.speed = Number($("speed-range").value);
  if ($("language").value) asked.language = $("language").value;
  return asked;
}

async function perform(text, voices) {
  if (!text) return $("text").focus();
  takes.clear();
  const seed = Math.floor(Math.random() * 2 ** 31), { sample_rate: rate } = models.get($("model").value);
  for (const [index, voice] of voices.entries()) {
    $("whose").textContent = takes.whose(voices, index);
    const take = await speak(text, wish(voice, seed), voice, rate);
    if (take) takes.add(take);
    if (!take || take.stopped) break;
  }
}

const speakText = () => perform($("text").value.trim(), [$("voice").value, $("other").value].filter(Boolean));

function preview() {
  const name = $("voice").selectedOptions[0]?.text.replace(/ \(.*/, "") || "this voice";
  return perform(`Hello, this is ${name}. The tide is coming in.`, [$("voice").value]);
}

const toggle = (begin) => now.run ? stop() : begin();

function fit() {
  $("text").style.height = "auto";
  $("text").style.height = `${$("text").scrollHeight}px`;
}

function listenToText() {
  for (const [name, text] of Object.entries(EXAMPLES)) $("example").append(new Option(name, text));
  $("example").onchange = () => {
    if ($("example").value) $("text").value = $("example").value;
    fit(); snippets.hint();
  };
  $("text").oninput = () => { $("example").value = ""; fit(); snippets.hint(); };
}

function listenToChoices() {
  $("preview").onclick = () => toggle(preview);
  $("go").onclick = () => toggle(speakText);
  $("model").onchange = () => discover();
  $("voice").onchange = chosen;
  $("delete-voice").onclick = () => {
    const name = $("voice").value;
    if (confirm(`Delete the voice ${name}, its recording and all that was derived of it?`)) recorder.remove(name, () => discover());
  };
  $("speed-range").oninput = () => {
    $("speed-says").textContent = `${Number($("speed-range").value).toFixed(2)}×`;
    snippets.hint();
  };
}

function listenToKeys() {
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey) && !now.run && !$("go").disabled) speakText();
    if (event.key === "Escape" && now.run) stop();
  });
}

listenToText();
listenToChoices();
listenToKeys();
snippets.listen();
access.listen(() => { if (now.run) stop(); disconnect(); discover(); });
recorder.listen(discover);
addEventListener("resize", () => { fit(); repaint(); });
discover();
fit();
repaint();
