// The text as it is spoken.
import { $, now } from "./dom.js";

export function lay(text) {
  now.run.tokens = [];
  const parts = text.split(/(\s+)/);
  let at = 0;
  $("reader").replaceChildren(...parts.map((part) => {
    const from = at;
    at += part.length;
    if (!part.trim()) return document.createTextNode(part);
    const span = document.createElement("span");
    span.textContent = part;
    now.run.tokens.push({ from, to: at, span });
    return span;
  }));
}

export function locate(word) {
  const at = now.run.text.toLowerCase().indexOf(word.toLowerCase(), now.run.cursor);
  if (at < 0) return -1;
  now.run.cursor = at + word.length;
  return now.run.tokens.findIndex((token) => at < token.to);
}

export function follow() {
  const at = now.run.played / now.rate;
  const active = now.run.words.findLast((word) => word.start_s <= at);
  if (!active || active.token < 0) return;
  now.run.tokens.forEach(({ span }, index) => {
    span.classList.toggle("said", index < active.token);
    span.classList.toggle("now", index === active.token && at < active.end_s + 0.25);
    if (index === active.token && at >= active.end_s + 0.25) span.classList.add("said");
  });
}
