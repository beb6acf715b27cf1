// Seconds made and played, over time.
import { $ } from "./dom.js";

export function curve(history) {
  const canvas = $("chart"), ratio = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const floor = height - 1, top = Math.max(1, ...history.map((point) => point[3])) * 1.1;
  const span = Math.max(4, history.length ? history.at(-1)[0] : 0);
  const left = 36, x = (t) => left + (t / span) * (width - left), y = (s) => floor - (s / top) * (floor - 16);
  pen.font = `12px ${style.getPropertyValue("--sans")}`;
  pen.lineWidth = 1;
  const step = top > 40 ? 20 : top > 16 ? 8 : top > 8 ? 4 : top > 4 ? 2 : top > 2 ? 1 : 0.5;
  for (let s = 0; s < top; s += step) {
    pen.strokeStyle = color("--line");
    pen.beginPath(); pen.moveTo(left, y(s)); pen.lineTo(width, y(s)); pen.stroke();
    pen.fillStyle = color("--soft");
    pen.fillText(s ? `${s} s` : "0", 0, Math.min(floor, y(s) + 4));
  }
  if (history.length < 2) return;
  const made = new Path2D(), played = new Path2D(), between = new Path2D();
  for (const [path, at] of [[made, 3], [played, 4], [between, 3]])
    history.forEach((point, i) => i ? path.lineTo(x(point[0]), y(point[at])) : path.moveTo(x(point[0]), y(point[at])));
  for (const point of [...history].reverse()) between.lineTo(x(point[0]), y(point[4]));
  pen.fillStyle = color("--wash"); pen.fill(between);
  pen.lineWidth = 1.75; pen.lineJoin = "round";
  pen.strokeStyle = color("--soft"); pen.stroke(played);
  pen.strokeStyle = color("--accent"); pen.stroke(made);
  pen.fillStyle = color("--alarm");
  for (let i = 1; i < history.length; i++) {
    if (history[i][2] > history[i - 1][2]) pen.fillRect(x(history[i][0]) - 1, floor - 14, 2, 14);
  }
}
