// One text spoken with one voice: begun, heard, stopped, ended.
import { curve } from "./chart.js";
import { $, complain, figure, milliseconds, now, seconds, show } from "./dom.js";
import { origin } from "./files.js";
import { follow, lay, locate } from "./reader.js";
import { configured, connect, connected, explain, resumable, say } from "./socket.js";
import { audioRate, openAudio, silence, tell } from "./sound.js";

let frame = 0, last = [];
const ears = { told, heard, lost: () => finish("connection lost") };

// Resolves, when the sound is over, with what was heard; null if that was nothing.
// `wish`: model, voice, seed, speed, language. `rate`: of the model's samples, in Hz.
export function speak(text, wish, name, rate) {
  complain("");
  silence();
  const opening = openAudio(rate, progress);
  return new Promise((ended) => {
    now.run = { text, wish, name, ended, samples: 0, played: 0, underruns: 0, words: [], history: [], pcm: [], cursor: 0,
                ready() {}, refused() {} };
    reset();
    lay(text);
    frame = requestAnimationFrame(draw);
    begin(now.run, opening);
  });
}

function reset() {
  for (const id of ["ttfp", "slack", "underruns", "speed"]) $(id).textContent = "–";
  $("slack-is").textContent = "slack now";
  $("main").classList.add("busy");
  $("go").textContent = "Stop";
  show("waiting", true);
}

async function begin(mine, opening) {
  try {
    if (!connected()) await connect(ears);
    await configured();
    await opening;
    if (audioRate() !== now.rate) await openAudio(now.rate, progress);
    if (now.run !== mine) return;
    tell("clear");
    mine.begun = performance.now();
    await type();
  } catch (error) {
    if (now.run !== mine) return;
    complain(error.message);
    finish("error");
  }
}

async function type() {
  const mine = now.run;
  if ($("typed").checked) await typeWords(mine); else say("input.text", { text: mine.text });
  if (now.run !== mine || mine.stopped || !connected()) return;
  say("input.done");
  mine.complete = true;
}

async function typeWords(mine) {
  for (const token of mine.tokens) token.span.classList.add("unsent");
  for (const [index, token] of mine.tokens.entries()) {
    if (now.run !== mine || mine.stopped || !connected()) return;
    const end = index + 1 < mine.tokens.length ? mine.tokens[index + 1].from : mine.text.length;
    say("input.text", { text: mine.text.slice(token.from, end) });
    token.span.classList.remove("unsent");
    await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 80));
  }
}

const HANDLERS = {
  "session.created": ready,
  "session.updated": ready,
  "audio.start": (message) => Object.assign(now.run, { id: message.request_id, token: message.resume_token, origin: origin(message) }),
  "audio.words": (message) => now.run.words.push(...message.words.map((word) => ({ ...word, token: locate(word.word) }))),
  "audio.done": done,
  "error": failed,
};

function told(message) {
  if (now.run && Object.hasOwn(HANDLERS, message.type)) HANDLERS[message.type](message);
}

function ready(message) {
  now.rate = message.sample_rate;
  now.run.ready();
}

function done(message) {
  const { run } = now;
  run.done = true;
  run.whole = message.outcome !== "cancelled";
  if (message.outcome === "runaway") complain(`The model lost its text ${message.reached ? `behind “${message.reached}”` : "before its end"}. Another seed may help.`);
  if (message.busy) complain("The machine was too busy to speak in time.");
  run.least = message.min_slack_s;
  run.stages = message.stages;
  run.served = message.ttfp_s;
  tell("end");
  if (!run.whole || !run.samples) finish();
}

function failed({ error }) {
  if (error.code === "draining" && resumable()) return;
  complain(error.message);
  explain(error);
  now.run.done = true;
  now.run.refused(new Error(error.message));
  if (now.run?.samples) tell("end"); else if (now.run) finish("error");
}

function heard(data) {
  const { run } = now;
  if (!run || run.done) return;
  const at = performance.now(), pcm = new Int16Array(data), samples = Float32Array.from(pcm, (value) => value / 32768);
  if (!run.samples) {
    run.first = at;
    milliseconds("ttfp", (at - run.begun) / 1000);
    show("speaking", true);
  }
  run.samples += pcm.length;
  run.last = at;
  run.pcm.push(pcm);
  tell(samples, [samples.buffer]);
}

function progress({ played, received, underruns, over }) {
  const { run, rate } = now;
  if (!run || !run.samples) return;
  run.played = played;
  run.underruns = underruns;
  run.history.push([(performance.now() - run.first) / 1000, (received - played) / rate, underruns, received / rate, played / rate]);
  if (over && run.done && !run.over) { run.over = true; finish(); }
}

export function stop() {
  now.run.stopped = now.run.done = true;
  if (connected()) say("cancel");
  tell("clear");
  finish("stopped");
}

function finish(state) {
  const { run } = now;
  cancelAnimationFrame(frame);
  paint();
  last = run.history;
  if (run.least != null) {
    $("slack-is").textContent = "least slack";
    seconds("slack", run.least);
  }
  now.run = null;
  $("main").classList.remove("busy");
  $("go").textContent = "Speak";
  show(state || "ready");
  run.ended(run.samples ? taken(run) : null);
}

function taken({ name, text, wish, words, pcm, stages, served, whole, first, begun, stopped, origin }) {
  return { name, text, wish, words, stages, served, whole, stopped, origin, parts: pcm, rate: now.rate, ttfp: (first - begun) / 1000 };
}

// Figures and the curve

function draw() { paint(); frame = requestAnimationFrame(draw); }

function paint() {
  const { run, rate } = now;
  if (run.samples && run.history.length) {
    seconds("slack", run.history.at(-1)[1]);
    $("underruns").textContent = run.underruns;
    $("underruns").classList.toggle("bad", run.underruns > 0);
    figure("speed", (run.samples / rate / ((run.last - run.begun) / 1000)).toFixed(1), "×");
    follow();
  }
  curve(run.history);
}

export function repaint() { if (!now.run) curve(last); }
