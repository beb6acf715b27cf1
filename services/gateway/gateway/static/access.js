// The API key: asked for when the server wants one, kept in this tab alone.
import { $, complain, show } from "./dom.js";

const KEPT = "antiphon.key";
const SUBPROTOCOL = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
let held = stored();

function stored() {
  try {
    return sessionStorage.getItem(KEPT) || "";
  } catch {
    return "";  // a browser that keeps nothing
  }
}

export const key = () => held;

export function keep(given) {
  held = given;
  try {
    if (given) sessionStorage.setItem(KEPT, given); else sessionStorage.removeItem(KEPT);
  } catch { /* it is held until the page is left */ }
}

// A page cannot set headers on a socket: the key travels as a subprotocol, out of the logs' sight.
export function openSocket(path) {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const address = `${scheme}//${location.host}${path}`;
  if (!held) return new WebSocket(address);
  if (SUBPROTOCOL.test(held)) return new WebSocket(address, ["token", held]);
  return new WebSocket(`${address}?api_key=${encodeURIComponent(held)}`);
}

export async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(held && { authorization: `Bearer ${held}` }) };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  throw failed(await response.json().catch(() => ({})), response.status);
}

function failed(body, status) {
  const error = body.error || { message: `the server answers ${status}` };
  if (error.code === "invalid_api_key") refused(error.message);
  return Object.assign(new Error(error.message), { code: error.code });
}

export function refused(message) {
  const says = held ? `This API key is refused: ${message}.` : "This server needs an API key.";
  $("gate-says").textContent = says;
  $("key").setAttribute("aria-invalid", String(Boolean(held)));
  $("gate").hidden = false;
  $("forget").hidden = !held;
  show(held ? "key refused" : "key missing");
  $("go").disabled = $("preview").disabled = true;
}

// Whether the server takes the key, or needs none. Other failures are not about the key.
export async function admitted() {
  try {
    await ask("/playground/key");
  } catch (error) {
    if (error.code === "invalid_api_key") return false;
    throw error;
  }
  $("gate").hidden = true;
  $("forget").hidden = !held;
  return true;
}

// `changed` runs when another key, or none, is held.
export function listen(changed) {
  $("gate").onsubmit = (event) => {
    event.preventDefault();
    const given = $("key").value.trim();
    if (/[^\x21-\x7e]/.test(given)) return ($("gate-says").textContent = "A key is letters, digits and signs without spaces.");
    keep(given);
    $("key").value = "";
    complain("");
    changed();
  };
  $("forget").onclick = () => { keep(""); $("forget").hidden = true; changed(); };
}
