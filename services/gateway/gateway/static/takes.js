// What was spoken: played again, drawn to scale, downloaded; two of them stand side by side.
import { ask } from "./access.js";
import { $, complain, element } from "./dom.js";
import { subtitles, wav } from "./files.js";
import { replay, silence } from "./sound.js";

const takes = [];
const links = [];
const MEANING = {
  bus: "bus and queue", talker: "talker", vocoder: "vocoder", gateway: "gateway", network: "network and page",
};

export function clear() {
  silence();
  takes.length = 0;
  for (const link of links.splice(0)) URL.revokeObjectURL(link);
  $("takes").replaceChildren();
}

export function add(take) {
  takes.push(take);
  const scale = Math.max(...takes.map(({ ttfp }) => ttfp));
  $("takes").replaceChildren(...takes.map((each, index) => card(each, index, scale)));
}

const lettered = (name, index) => `${"AB"[index]}: ${name}`;

// Of which voice the large figures are, where two are compared.
export const whose = (voices, index) => voices.length > 1 ? `Figures and curve of ${lettered(voices[index], index)}` : "";

function card(take, index, scale) {
  const name = takes.length > 1 ? lettered(take.name, index) : take.name;
  const length = take.parts.reduce((sum, part) => sum + part.length, 0) / take.rate;
  const about = `${length.toFixed(2)} s, first sound after ${Math.round(take.ttfp * 1000)} ms${take.whole ? "" : ", stopped"}`;
  return element("article", { className: "panel" },
    element("h2", { textContent: name }), element("p", { textContent: about }),
    ...timeline(take, scale), buttons(take));
}

// Where the wait for the first sound went

export function waits({ stages, served, ttfp }) {
  const found = ["bus", "talker", "vocoder"].map((name) => [name, stages[`${name}_s`] || 0]);
  const known = found.reduce((sum, [, s]) => sum + s, 0);
  // The gateway's clock stops after it has sent the sound, which a busy machine may play before.
  const gateway = Math.max(0, Math.min(served ?? known, ttfp) - known);
  return [...found, ["gateway", gateway], ["network", Math.max(0, ttfp - known - gateway)]];
}

function timeline(take, scale) {
  if (!take.stages) return [];
  const found = waits(take).filter(([, s]) => s >= 0.0005);
  const said = found.map(([name, s]) => [name, `${MEANING[name]} ${Math.round(s * 1000)} ms`]);
  const track = element("div", { className: "track", role: "img", ariaLabel: `The wait for the first sound: ${said.map(([, text]) => text).join(", ")}` });
  for (const [name, s] of found) {
    const bar = element("span", { className: name, title: MEANING[name] });
    bar.style.width = `${100 * s / scale}%`;
    track.append(bar);
  }
  return [track, axis(scale), legend(said)];
}

function axis(scale) {
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => mark(part, `${Math.round(part * scale * 1000)}${part === 1 ? " ms" : ""}`));
  return element("div", { className: "axis", ariaHidden: "true" }, ...marks);
}

function mark(part, textContent) {
  const made = element("span", { textContent });
  made.style.left = `${100 * part}%`;
  return made;
}

function legend(said) {
  return element("ul", { className: "legend" },
    ...said.map(([name, text]) => element("li", {}, element("i", { className: name }), text)));
}

// Played again and downloaded

function buttons(take) {
  const bar = element("div", { className: "takes-bar" }, playButton(take), mp3Button(take), link(take, "wav", wav(take.parts, take.rate, take.origin)));
  if (take.words.length) bar.append(link(take, "vtt", new Blob([subtitles(take.words)], { type: "text/vtt" })));
  return bar;
}

function playButton(take) {
  const button = element("button", { type: "button", className: "quiet", textContent: "Play", ariaLabel: `Play ${take.name}` });
  button.onclick = () => {
    if (button.textContent === "Stop") return silence();
    replay(joined(take.parts), take.rate, () => { button.textContent = "Play"; });
    button.textContent = "Stop";
  };
  return button;
}

function joined(parts) {
  const whole = new Int16Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => { whole.set(part, at); return at + part.length; }, 0);
  return whole;
}

function link(take, kind, blob) {
  const href = URL.createObjectURL(blob);
  links.push(href);
  const label = kind === "vtt" ? "Subtitles" : kind.toUpperCase();
  return element("a", { className: "quiet", href, download: `${take.name}.${kind}`, textContent: label });
}

// The server encodes: the same request with the same seed gives the same speech.
function mp3Button(take) {
  const button = element("button", { type: "button", className: "quiet", textContent: "MP3" });
  button.onclick = async () => {
    button.disabled = true;
    try {
      await download(take);
    } catch (error) {
      complain(error.message);
    }
    button.disabled = false;
  };
  return button;
}

async function download(take) {
  const body = { ...take.wish, input: take.text, response_format: "mp3", stream: false };
  const response = await ask("/v1/audio/speech", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  link(take, "mp3", await response.blob()).click();
}
