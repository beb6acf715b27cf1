// What all parts of the page share: its elements and what is being spoken.
export const $ = (id) => document.getElementById(id);

// `run`: what is being spoken, null when nothing is. `rate`: of its samples, in Hz.
export const now = { run: null, rate: 0 };

export function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function figure(id, value, unit) {
  $(id).replaceChildren(value, element("small", { textContent: unit }));
}

export const milliseconds = (id, s) => figure(id, String(Math.round(s * 1000)), "ms");
export const seconds = (id, s) => figure(id, s.toFixed(s < 10 ? 2 : 1), "s");

export function show(state, on) {
  $("state").textContent = state;
  $("state").toggleAttribute("data-on", Boolean(on));
}

export function complain(message) { $("problem").textContent = message || ""; }

export function fill(select, options, kept) {
  select.replaceChildren(...options.map(([value, name]) => new Option(name, value, false, value === kept)));
}
