"use strict";
(() => {
  const parts = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  const SPACE = "http://www.w3.org/2000/svg";
  const COLOURS = ["var(--one)", "var(--two)", "var(--three)"];
  const SHOWN = 400; // rows at once: more come when one scrolls to the end
  let showNode = null;

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const draw = (tag, attributes = {}, text = null) => {
    const element = document.createElementNS(SPACE, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    return element;
  };
  const shorten = (text, length) => (text.length > length ? "…" + text.slice(1 - length) : text);
  const number = (value, digits) =>
    value && Math.abs(value) < 1e-3 ? String(value.toExponential(digits - 1)) : String(Number(value.toPrecision(digits)));
  const inTime = (ns) =>
    ns >= 1e9 ? `${(ns / 1e9).toPrecision(4)} s` : ns >= 1e6 ? `${(ns / 1e6).toPrecision(4)} ms`
    : ns >= 1e3 ? `${(ns / 1e3).toPrecision(4)} us` : `${Math.round(ns)} ns`;
  const inBytes = (bytes) =>
    bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB`
    : bytes >= 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${bytes} B`;
  const UNITS = { bytes: inBytes, seconds: (seconds) => inTime(seconds * 1e9) };
  const shown = (value, unit) =>
    value === null ? "-" : typeof value !== "number" ? value : unit ? UNITS[unit](value)
    : Number.isInteger(value) ? String(value) : number(value, 3);

  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("input[type=search]");
    if (event.key === "/" && search && document.activeElement.tagName !== "INPUT") {
      event.preventDefault();
      search.focus();
    }
  });

  // In a search: Escape empties it, and the arrow downwards goes to what was found.
  const searching = (event, fill, first) => {
    if (event.key === "Escape" && event.target.value) {
      event.target.value = "";
      fill();
    } else if (event.key === "ArrowDown") first()?.focus();
    else return;
    event.preventDefault();
  };
  const filterButton = (value, total) =>
    make("button", { type: "button", "aria-pressed": "false" }, `${value} `, make("span", { class: "count" }, String(total)));

  function text(part) {
    for (const line of part.lines) main.append(make("p", { class: part.kind }, line));
  }

  function grid(part) {
    const numbers = new Set(part.numbers), marked = new Set(part.marked);
    const search = make("input", { type: "search", placeholder: "search", "aria-label": `search ${part.title}` });
    const count = make("span", { role: "status" });
    const head = make("tr"), body = make("tbody");
    const scroll = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": part.title }, make("table", {}, make("thead", {}, head), body));
    let order = part.rows.map((_, at) => at), column = -1, upward = true, end = 0;
    const weight = (value) =>
      value === null ? -Infinity : typeof value === "number" ? value : value === "inf" ? Infinity : Number.NaN;
    const compare = (a, b) => {
      const x = part.rows[a][column], y = part.rows[b][column];
      const both = numbers.has(part.columns[column]) ? weight(x) - weight(y) : String(x).localeCompare(String(y));
      return (upward ? 1 : -1) * (both || 0) || a - b;
    };
    const more = () => {
      for (const at of order.slice(end, end + SHOWN)) {
        const row = make("tr");
        if (marked.has(at)) row.classList.add("marked");
        part.rows[at].forEach((value, place) => {
          const cell = make("td", numbers.has(part.columns[place]) ? { class: "number" } : {}, shown(value, part.units[part.columns[place]]));
          row.append(cell);
        });
        if (part.opens && part.opens[at] >= 0) {
          row.tabIndex = 0;
          row.addEventListener("click", () => open(row, part.opens[at]));
        }
        body.append(row);
      }
      end = Math.min(order.length, end + SHOWN);
    };
    const open = (row, node) => {
      for (const other of body.querySelectorAll(".open")) other.classList.remove("open");
      row.classList.add("open");
      if (showNode) showNode(node);
    };
    const fill = () => {
      const wanted = search.value.toLowerCase();
      order = part.rows.map((_, at) => at).filter((at) =>
        !wanted || part.rows[at].some((value) => String(value ?? "").toLowerCase().includes(wanted)));
      if (column >= 0) order.sort(compare);
      body.replaceChildren();
      end = 0;
      more();
      count.textContent = `${order.length} of ${part.rows.length}`;
    };
    part.columns.forEach((name, place) => {
      const button = make("button", { type: "button" }, name);
      button.addEventListener("click", () => {
        upward = column === place ? !upward : !numbers.has(name);
        column = place;
        for (const cell of head.children) cell.removeAttribute("aria-sort");
        button.parentElement.setAttribute("aria-sort", upward ? "ascending" : "descending");
        fill();
      });
      head.append(make("th", numbers.has(name) ? { class: "number" } : {}, button));
    });
    body.addEventListener("keydown", (event) => {
      const row = event.target.closest("tr"), { firstElementChild: top, lastElementChild: last } = body;
      if (event.key === "Enter") row.click();
      const next = {
        ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling ?? search, Home: top, End: last,
      }[event.key];
      if (next) {
        event.preventDefault();
        next.focus();
      }
    });
    scroll.addEventListener("scroll", () => {
      if (end < order.length && scroll.scrollTop + scroll.clientHeight > scroll.scrollHeight - 600) more();
    });
    search.addEventListener("input", fill);
    search.addEventListener("keydown", (event) => searching(event, fill, () => body.querySelector("tr[tabindex]") ?? scroll));
    main.append(make("h2", {}, part.title));
    if (part.rows.length > 8) main.append(make("div", { class: "tools" }, search, count));
    main.append(scroll);
    fill();
  }

  function plot(part) {
    const W = 1000, H = 280, L = 70, R = 15, T = 15, B = 40;
    const names = Object.keys(part.series);
    const length = Math.max(...names.map((name) => part.series[name].length), 2);
    const usable = (y) => typeof y === "number" && (!part.logarithmic || y > 0);
    const all = names.flatMap((name) => part.series[name].filter(usable));
    if (part.level !== null) all.push(part.level);
    main.append(make("h2", {}, part.title));
    if (!all.length) {
      main.append(make("p", {}, "There is nothing to show: all numbers are 0."));
      return;
    }
    const scale = part.logarithmic ? Math.log10 : (y) => y;
    let low = scale(Math.min(...all)), high = scale(Math.max(...all));
    if (part.logarithmic) {
      low = Math.floor(low);
      high = Math.ceil(high);
      // Room above the line for what is beyond all numbers.
      if (part.level !== null) high = Math.max(high, Math.ceil(scale(part.level)) + 1);
    }
    if (low === high) high = low + 1;
    const x = (at) => L + ((W - L - R) * at) / (length - 1);
    const y = (value) => H - B - ((H - B - T) * (scale(value) - low)) / (high - low);
    const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": part.title });
    const steps = part.logarithmic ? Math.min(high - low, 8) : 4;
    for (let step = 0; step <= steps; step++) {
      const at = low + ((high - low) * step) / steps;
      const value = part.logarithmic ? 10 ** at : at;
      svg.append(draw("line", { class: "axis", x1: L, x2: W - R, y1: y(value), y2: y(value) }));
      svg.append(draw("text", { x: L - 8, y: y(value) + 4, "text-anchor": "end" }, number(value, part.logarithmic ? 1 : 3)));
    }
    svg.append(draw("text", { x: (L + W) / 2, y: H - 8, "text-anchor": "middle" }, part.across));
    if (part.level !== null) {
      svg.append(draw("line", { class: "level", x1: L, x2: W - R, y1: y(part.level), y2: y(part.level) }));
    }
    const legend = make("p", { class: "legend" });
    names.forEach((name, number) => {
      let path = "", dots = "", pen = false;
      part.series[name].forEach((value, at, all) => {
        if (usable(value)) {
          const place = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
          path += `${pen ? "L" : "M"}${place}`;
          if (!pen && !usable(all[at + 1])) dots += `M${place}h0`; // a line of one point would not be seen
        }
        pen = usable(value);
      });
      const style = `stroke:${COLOURS[number % 3]}`;
      svg.append(draw("path", { class: "line", d: path || "M0 0", style }));
      if (dots) svg.append(draw("path", { class: "dots", d: dots, style }));
      const sign = make("i");
      sign.style.background = COLOURS[number % 3];
      legend.append(make("span", {}, sign, name));
    });
    for (const at of part.marked) {
      const value = part.series[names[0]][at];
      const spot = draw("circle", { class: "spot", cx: x(at), cy: usable(value) ? y(value) : T, r: 4 });
      spot.append(draw("title", {}, part.labels[at] ?? String(at)));
      svg.append(spot);
    }
    main.append(legend, svg);
  }

  function network(part) {
    const W = 1000, ROW = 64, WIDE = 185, TALL = 40, AROUND = 2, BESIDE = 4;
    const marked = new Set(part.marked);
    const before = part.labels.map(() => []), after = part.labels.map(() => []);
    for (const [from, to] of part.edges) {
      after[from].push(to);
      before[to].push(from);
    }
    const heading = make("h2", { title: "arrow keys move" }, part.title), details = make("p", { role: "status" });
    const svg = draw("svg", { role: "group", "aria-label": part.title });
    main.append(heading, details, svg);
    const place = (middle) => {
      const layers = new Map([[middle, 0]]);
      for (const [next, way] of [[before, -1], [after, 1]]) {
        let edge = [middle];
        for (let step = 1; step <= AROUND; step++) {
          edge = [...new Set(edge.flatMap((node) => next[node]))].filter((node) => !layers.has(node)).slice(0, BESIDE);
          for (const node of edge) layers.set(node, way * step);
        }
      }
      return layers;
    };
    showNode = (middle, focus = false) => {
      const layers = place(middle), rows = new Map();
      for (const [node, layer] of layers) rows.set(layer, [...(rows.get(layer) ?? []), node]);
      const levels = [...rows.keys()].sort((a, b) => a - b), where = new Map();
      levels.forEach((level, row) => {
        rows.get(level).forEach((node, column, all) => {
          where.set(node, [(W * (column + 1)) / (all.length + 1), 36 + row * ROW]);
        });
      });
      svg.setAttribute("viewBox", `0 0 ${W} ${levels.length * ROW + 12}`);
      svg.replaceChildren();
      for (const [from, to] of part.edges) {
        if (!where.has(from) || !where.has(to)) continue;
        const [ax, ay] = where.get(from), [bx, by] = where.get(to);
        const bend = (ay + by) / 2;
        svg.append(draw("path", { class: "edge", d: `M${ax} ${ay + TALL / 2}C${ax} ${bend} ${bx} ${bend} ${bx} ${by - TALL / 2}` }));
      }
      for (const [node, [cx, cy]] of where) {
        const kind = ["node", marked.has(node) ? "marked" : "", node === middle ? "middle" : ""].join(" ");
        const group = draw("g", { class: kind, tabindex: 0, role: "button", "aria-label": part.labels[node] });
        group.append(draw("rect", { x: cx - WIDE / 2, y: cy - TALL / 2, width: WIDE, height: TALL, rx: 5 }));
        group.append(draw("text", { x: cx, y: cy + 4, "text-anchor": "middle" }, shorten(part.labels[node], 24)));
        group.append(draw("title", {}, `${part.labels[node]}\n${part.details[node]}`));
        const go = () => showNode(node, true);
        group.addEventListener("click", go);
        group.addEventListener("keydown", (event) => {
          if (event.key === "Enter") go();
          const row = rows.get(layers.get(node)), place = row.indexOf(node);
          const next = {
            ArrowUp: before[node][0], ArrowDown: after[node][0], ArrowLeft: row[place - 1], ArrowRight: row[place + 1],
          }[event.key];
          if (next === undefined) return;
          event.preventDefault();
          showNode(next, true);
        });
        svg.append(group);
        if (focus && node === middle) group.focus();
      }
      details.textContent = `${part.labels[middle]}: ${part.details[middle]}`;
    };
    showNode(part.start);
  }

  function entries(part) {
    const search = make("input", { type: "search", placeholder: "search", "aria-label": `search ${part.title}` });
    const count = make("span", { role: "status" }), list = make("div", { class: "entries" });
    const chosen = new Map(Object.keys(part.filters).map((name) => [name, new Set()]));
    const tools = make("div", { class: "tools" }, search, count), made = [];
    for (const [name, values] of Object.entries(part.filters)) {
      const totals = new Map();
      for (const value of values) totals.set(value, (totals.get(value) ?? 0) + 1);
      const bar = make("div", { class: "filters", role: "group", "aria-label": name }, make("span", {}, name));
      const numbered = [...totals.keys()].every((value) => value !== "" && Number.isFinite(Number(value)));
      for (const [value, total] of numbered ? [...totals].sort((a, b) => a[0] - b[0]) : totals) {
        const button = filterButton(value, total);
        button.addEventListener("click", () => {
          const on = !chosen.get(name).delete(value);
          if (on) chosen.get(name).add(value);
          button.setAttribute("aria-pressed", String(on));
          fill();
        });
        bar.append(button);
      }
      made.push(bar);
    }
    const open = (head, body) => {
      const on = body.hidden;
      head.setAttribute("aria-expanded", String(on));
      body.hidden = !on;
      if (on && !body.childElementCount) {
        for (const [heading, text] of part.details[Number(head.dataset.at)]) {
          body.append(make("h3", {}, heading), make("p", { class: "code" }, text));
        }
      }
    };
    const entry = (at) => {
      const head = make("button", { type: "button", class: `entry ${part.kinds[at]}`, "aria-expanded": "false", "data-at": at });
      part.rows[at].forEach((value) => head.append(make("span", {}, value)));
      const body = make("div", { class: "opened", hidden: "" });
      head.addEventListener("click", () => open(head, body));
      return make("div", {}, head, body);
    };
    const fill = () => {
      const wanted = search.value.toLowerCase();
      const order = part.rows.map((_, at) => at).filter((at) =>
        [...chosen].every(([name, values]) => !values.size || values.has(part.filters[name][at])) && (!wanted || part.rows[at].some((value) => value.toLowerCase().includes(wanted)) ||
          part.details[at].some(([, text]) => text.toLowerCase().includes(wanted))));
      list.replaceChildren(...order.map(entry));
      count.textContent = `${order.length} of ${part.rows.length}`;
    };
    list.addEventListener("keydown", (event) => {
      const heads = [...list.querySelectorAll(".entry")];
      if (event.key === "Escape") {
        const head = event.target.closest(".entry") ?? event.target.closest(".opened")?.previousElementSibling;
        if (head?.getAttribute("aria-expanded") === "true") {
          head.click();
          head.focus();
        }
      }
      const place = heads.indexOf(event.target) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] ?? NaN);
      const next = place < 0 ? search : { Home: heads[0], End: heads.at(-1) }[event.key] ?? heads[place];
      if (next && heads.includes(event.target)) {
        event.preventDefault();
        next.focus();
      }
    });
    search.addEventListener("input", fill);
    search.addEventListener("keydown", (event) => searching(event, fill, () => list.querySelector(".entry")));
    main.append(make("h2", {}, part.title), tools, ...made, list);
    fill();
  }

  function timeline(part) {
    const ROW = 18, GAP = 22, TOP = 24;
    const COLOUR = ["--one", "--two", "--mark"];
    const all = part.spans.reduce((end, span) => Math.max(end, span[2] + span[3]), 1);
    const deepest = part.lanes.map(() => 0);
    for (const span of part.spans) deepest[span[0]] = Math.max(deepest[span[0]], span[1]);
    const tops = [];
    let height = TOP;
    deepest.forEach((depth, lane) => {
      tops[lane] = height + GAP;
      height += GAP + (depth + 1) * ROW + 6;
    });
    let from = 0, to = all, chosen = -1, found = [];
    const search = make("input", { type: "search", placeholder: "search", "aria-label": `search ${part.title}` });
    const count = make("span", { role: "status" }), details = make("p", { class: "code", role: "status", hidden: "" });
    const button = (label, name, act) => {
      const made = make("button", { type: "button", "aria-label": name, title: name }, label);
      made.addEventListener("click", act);
      return made;
    };
    const canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": `${part.title}: left and right move, up and down go from call to call, + and - zoom` });
    const zoom = (factor, middle = (from + to) / 2) => {
      const span = Math.min(Math.max((to - from) * factor, 50), all);
      const share = (middle - from) / (to - from);
      from = Math.min(Math.max(middle - share * span, 0), all - span);
      to = from + span;
      paint();
    };
    const move = (share) => {
      const span = to - from;
      from = Math.min(Math.max(from + share * span, 0), all - span);
      to = from + span;
      paint();
    };
    const whole = () => {
      from = 0;
      to = all;
      paint();
    };
    const open = (at, centre) => {
      chosen = at;
      const span = part.spans[at];
      details.hidden = false;
      details.textContent = `${inTime(span[2])} + ${inTime(span[3])}: ${part.details[at]}`;
      if (centre) {
        const wide = Math.min(Math.max(span[3] * 4, 1000), all);
        from = Math.min(Math.max(span[2] + span[3] / 2 - wide / 2, 0), all - wide);
        to = from + wide;
      }
      paint();
    };
    const step = (way) => {
      if (!found.length) return;
      const place = found.indexOf(chosen);
      open(found[(place + way + (place < 0 && way < 0 ? 1 : 0) + found.length) % found.length], true);
    };
    const order = part.spans.map((_, at) => at).sort((a, b) => part.spans[a][2] - part.spans[b][2] || part.spans[a][1] - part.spans[b][1]);
    const follow = (way) => { // the next call in time, or the first that is in sight
      if (!order.length) return;
      const inSight = order.findIndex((at) => part.spans[at][2] + part.spans[at][3] >= from);
      const place = chosen < 0 ? inSight : Math.min(Math.max(order.indexOf(chosen) + way, 0), order.length - 1);
      const [, , start, lasts] = part.spans[order[Math.max(place, 0)]];
      open(order[Math.max(place, 0)], start < from || start + lasts > to);
    };
    const close = () => {
      if (chosen < 0) return whole();
      chosen = -1;
      details.hidden = true;
      paint();
    };
    const paint = () => {
      const style = getComputedStyle(document.documentElement), known = new Map();
      const colour = (name) => known.get(name) ?? known.set(name, style.getPropertyValue(name).trim()).get(name);
      const ratio = devicePixelRatio || 1, width = canvas.clientWidth || 1000;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.height = `${height}px`;
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.font = "12px system-ui, sans-serif";
      const x = (ns) => ((ns - from) / (to - from)) * width;
      context.fillStyle = colour("--soft");
      for (let mark = 0; mark <= 4; mark++) {
        const label = mark && from > 0 ? `+ ${inTime(((to - from) * mark) / 4)}` : inTime(from + ((to - from) * mark) / 4);
        const at = Math.min((width * mark) / 4 + 3, width - context.measureText(label).width - 3);
        context.fillText(label, at, 14);
      }
      part.lanes.forEach((lane, number) => context.fillText(lane, 3, tops[number] - 6));
      const matches = search.value ? new Set(found) : null, painted = new Map();
      part.spans.forEach((span, at) => {
        const left = x(span[2]), right = x(span[2] + span[3]);
        if (right < 0 || left > width) return;
        const top = tops[span[0]] + span[1] * ROW;
        const bright = !matches || matches.has(at);
        // What is narrower than a pixel hides behind what stands there, unless it is looked for.
        if (right - left < 1 && !(matches && bright) && at !== chosen) {
          const place = top * 100000 + Math.floor(left);
          if (painted.has(place)) return;
          painted.set(place, true);
        }
        context.globalAlpha = bright ? 1 : 0.2;
        context.fillStyle = colour(COLOUR[span[5]]);
        const wide = Math.max(Math.min(right, width) - Math.max(left, 0), 1);
        context.fillRect(Math.max(left, 0), top, wide, ROW - 2);
        if (at === chosen) {
          context.strokeStyle = colour("--fore");
          context.lineWidth = 2;
          context.strokeRect(Math.max(left, 0), top, wide, ROW - 2);
        }
        if (wide > 40) {
          context.fillStyle = colour("--back");
          context.fillText(shortenEnd(part.names[span[4]], Math.floor(wide / 7)), Math.max(left, 0) + 4, top + 12);
        }
      });
      context.globalAlpha = 1;
    };
    const shortenEnd = (name, length) => (name.length > length ? name.slice(0, Math.max(length - 1, 0)) + "…" : name);
    const under = (event) => {
      const box = canvas.getBoundingClientRect(), width = canvas.clientWidth;
      const near = ((to - from) / width) * 2;
      const time = from + ((event.clientX - box.left) / width) * (to - from), y = event.clientY - box.top;
      let best = -1;
      part.spans.forEach((span, at) => {
        const top = tops[span[0]] + span[1] * ROW;
        if (y < top || y >= top + ROW || time < span[2] - near || time > span[2] + span[3] + near) return;
        if (best < 0 || span[3] < part.spans[best][3]) best = at;
      });
      return best;
    };
    let held = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, from + ((event.clientX - box.left) / canvas.clientWidth) * (to - from));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      held = { x: event.clientX, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held || Math.abs(event.clientX - held.x) < 3) return;
      move((held.x - event.clientX) / canvas.clientWidth);
      held = { x: event.clientX, moved: true };
    });
    canvas.addEventListener("pointerup", (event) => {
      const at = held && !held.moved ? under(event) : -1;
      held = null;
      if (at >= 0) open(at, false);
    });
    canvas.addEventListener("keydown", (event) => {
      const act = {
        ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowDown: () => follow(1), ArrowUp: () => follow(-1),
        "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), Home: whole, 0: whole, Escape: close,
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    const find = () => {
      const wanted = search.value.toLowerCase();
      const named = part.names.map((name) => wanted !== "" && name.toLowerCase().includes(wanted));
      found = [];
      part.spans.forEach((span, at) => named[span[4]] && found.push(at));
      count.textContent = wanted ? `${found.length} found` : "";
      paint();
    };
    search.addEventListener("input", find);
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
      else searching(event, find, () => canvas);
    });
    main.append(make("h2", {}, part.title), make("div", { class: "tools" }, search,
      button("‹", "previous found", () => step(-1)), button("›", "next found", () => step(1)),
      button("+", "zoom in", () => zoom(0.5)), button("−", "zoom out", () => zoom(2)), button("all", "show all", whole),
      count), canvas, details);
    new ResizeObserver(paint).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
    document.getElementById("theme").addEventListener("click", paint);
    paint();
  }

  const renderers = { Text: text, Grid: grid, Plot: plot, Network: network, Timeline: timeline, Entries: entries };
  const shared = { make, main, inTime, inBytes, filterButton };
  for (const part of parts) {
    if (renderers[part.part]) renderers[part.part](part);
    else showNode = globalThis.pageParts[part.part](part, shared);
  }
})();
