/* Functions of the charts in the browser: colors of the theme, tooltips, whiskers, dragging. */
window.kreach = {
  color(name, alpha) {
    const value = getComputedStyle(document.body).getPropertyValue("--" + name).trim();
    if (alpha === undefined) return value;
    const n = parseInt(value.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
  },
  number(value, digits) {
    if (value === null || value === undefined || Number.isNaN(value)) return "withheld";
    const small = Math.abs(value) < 9.95 && Math.abs(value - Math.round(value)) > 0.05;
    const d = digits === undefined ? (small ? 1 : 0) : digits;
    return value.toLocaleString("en", { minimumFractionDigits: d, maximumFractionDigits: d });
  },
  time(value) {
    const parts = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
    return new Date(value).toLocaleString("en-GB", { ...parts, timeZone: "UTC", hour12: false });
  },
  axisTime(value) {
    const at = new Date(value);
    const hour = at.getUTCHours(), minute = at.getUTCMinutes();
    const two = (n) => String(n).padStart(2, "0");
    const day = at.toLocaleString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
    return hour || minute ? `${two(hour)}:${two(minute)}` : day;
  },
  /* Series whose name begins with _ only draw a band; a value's third and fourth are its interval. */
  tooltip(unit, digits, overTime) {
    const safe = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
    return (params) => {
      const points = (Array.isArray(params) ? params : [params]).filter((p) => !p.seriesName.startsWith("_"));
      if (!points.length) return "";
      const first = points[0];
      const x = Array.isArray(first.value) ? first.value[0] : first.name;
      const head = overTime ? kreach.time(x) + " UTC" : safe(first.axisValueLabel || first.name || x);
      const lines = points.map((p) => {
        const v = Array.isArray(p.value) ? p.value : [0, p.value];
        const ends = v.length > 3 && v[2] !== null
          ? ` (${kreach.number(v[2], digits)} to ${kreach.number(v[3], digits)})` : "";
        return `${p.marker}${safe(p.seriesName)}: <b>${kreach.number(v[1], digits)}</b>${ends}${unit === "%" ? "" : " "}${safe(unit)}`;
      });
      return [head, ...lines].join("<br>");
    };
  },
  whisker(params, api) {
    const low = api.coord([api.value(0), api.value(1)]);
    const high = api.coord([api.value(0), api.value(2)]);
    const half = 7;
    const style = { stroke: kreach.color("ink"), lineWidth: 1.5, fill: null };
    const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
    return {
      type: "group",
      children: [
        line(low[0], low[1], high[0], high[1]),
        line(low[0] - half, low[1], low[0] + half, low[1]),
        line(high[0] - half, high[1], high[0] + half, high[1]),
      ],
    };
  },
  /* A number inside a bar that is too short for it is moved out of sight. */
  fitLabel(params) {
    return params.labelRect.width + 6 > params.rect.width ? { x: -1000 } : {};
  },
  /* A long name takes up to three lines, which break after its punctuation. */
  wrapName(name) {
    const lines = [""];
    for (const piece of name.match(/[^-_. ]{1,15}[-_. ]?|[-_. ]+/g) ?? []) {
      if (lines[0] && (lines.at(-1) + piece).length > 16) lines.push("");
      lines[lines.length - 1] += piece;
    }
    return lines.length > 3 ? lines.slice(0, 3).join("\n") + "…" : lines.join("\n");
  },
  stepLabel(params) {
    const [, , total, adds] = params.value;
    return `{adds|+${kreach.number(adds)}}\n{total|${kreach.number(total)} so far}`;
  },
  /* A chart as a file, on the background of the theme. */
  png(element, name) {
    const options = { type: "png", pixelRatio: 2, backgroundColor: kreach.color("surface") };
    const link = document.createElement("a");
    link.href = element.chart.getDataURL(options);
    link.download = name;
    link.click();
  },
  async copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      return true;
    } catch {
      return false;
    }
  },
  /* Charts are drawn for the width of the screen: draw them for the paper, and back. */
  print() {
    const resize = () => document.querySelectorAll(".nicegui-echart").forEach(
      (el) => getElement(+el.id.slice(1))?.chart?.resize());
    addEventListener("beforeprint", resize, { once: true });
    addEventListener("afterprint", resize, { once: true });
    window.print();
  },
  /* Dragging across a chart selects a window, by mouse, pen or finger. Where a finger moves up or
     down, the page scrolls (touch-action), and the browser cancels the drag. */
  startDrag(event) {
    const place = event.target.closest?.(".k-drag");
    const chart = place && getElement(+place.id.slice(1))?.chart;
    if (!chart || event.button || !event.isPrimary) return;
    const { left, top } = place.getBoundingClientRect();
    if (!chart.containPixel("grid", [event.clientX - left, event.clientY - top])) return;
    const [axis] = chart.getOption().xAxis;
    const valueAt = (x) => {
      const value = chart.convertFromPixel({ xAxisIndex: 0 }, x - left);
      return Math.min(axis.max, Math.max(axis.min, value));
    };
    const areasTo = (x) => {
      if (Math.abs(x - event.clientX) < 6) return []; // a click or a tap
      const coordRange = [valueAt(event.clientX), valueAt(x)].sort((a, b) => a - b);
      return [{ brushType: "lineX", xAxisIndex: 0, coordRange }];
    };
    const dispatch = (type, areas) => chart.isDisposed() || chart.dispatchAction({ type, areas });
    const drag = new AbortController();
    const on = (name, act) => addEventListener(
      name, (one) => one.pointerId === event.pointerId && act(one.clientX), { signal: drag.signal });
    const stop = () => {
      drag.abort();
      dispatch("brush", []);
    };
    on("pointermove", (x) => dispatch("brush", areasTo(x)));
    on("pointercancel", stop);
    on("pointerup", (x) => {
      stop();
      dispatch("brushEnd", areasTo(x));
    });
  },
};
addEventListener("pointerdown", kreach.startDrag);
