// Sorts, filters and compares. Every text from data goes in as text, never as markup.
"use strict";

const element = (name, content = "", className = "") => {
  const made = document.createElement(name);
  made.textContent = content;
  if (className) made.className = className;
  return made;
};

const embedded = () => JSON.parse(document.getElementById("data").textContent);

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// Tables that are wider than their place ---------------------------------------------------------

const watchWidth = (scroller) => {
  const update = () => {
    const hidden = scroller.scrollWidth - scroller.clientWidth - scroller.scrollLeft;
    scroller.toggleAttribute("data-more", hidden > 1);
  };
  const observer = new ResizeObserver(update);
  observer.observe(scroller);
  observer.observe(scroller.querySelector("table"));
  scroller.addEventListener("scroll", update, { passive: true });
};

// The leaderboard -------------------------------------------------------------------------------

const cellOf = (body, column) => body.rows[0].cells[column];

const sortBy = (table, heading) => {
  const column = heading.cellIndex;
  const first = heading.dataset.sort === "descending" ? "descending" : "ascending";
  const second = first === "ascending" ? "descending" : "ascending";
  const order = heading.getAttribute("aria-sort") === first ? second : first;
  const sign = order === "ascending" ? 1 : -1;
  const key = (body) => {
    const cell = cellOf(body, column);
    if (heading.dataset.sort === "text") return body.dataset.run.toLowerCase();
    return "value" in cell.dataset ? Number(cell.dataset.value) : null;
  };
  const compare = (one, other) => {
    const [left, right] = [key(one), key(other)];
    if (left === null || right === null) return (left === null) - (right === null);
    return sign * (left < right ? -1 : left > right ? 1 : 0);
  };
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  table.append(...[...table.tBodies].sort(compare));
};

const startBoard = (board) => {
  const table = board.querySelector("[data-sortable]");
  const filter = board.querySelector("[data-filter]");
  const shown = board.querySelector("[data-count]");
  for (const heading of table.tHead.rows[0].cells) {
    heading.querySelector("button").addEventListener("click", () => sortBy(table, heading));
  }
  for (const opener of table.querySelectorAll(".opens")) {
    opener.addEventListener("click", () => {
      const detail = document.getElementById(opener.getAttribute("aria-controls"));
      detail.hidden = !detail.hidden;
      opener.setAttribute("aria-expanded", String(!detail.hidden));
    });
  }
  const choose = (box) => {
    const cells = table.querySelectorAll(`[data-key="${CSS.escape(box.dataset.column)}"]`);
    for (const cell of cells) cell.hidden = !box.checked;
  };
  for (const box of board.querySelectorAll("[data-column]")) {
    box.addEventListener("change", () => choose(box));
    choose(box);
  }
  const onlyAdded = board.querySelector("[data-only-added]");
  const update = () => {
    const isAll = !filter.value && !(onlyAdded && onlyAdded.checked);
    const words = filter.value.toLowerCase().split(/\s+/);
    let matches = 0;
    for (const body of table.tBodies) {
      const name = body.dataset.run.toLowerCase();
      const isLeftOut = onlyAdded && onlyAdded.checked && !body.matches(".added");
      body.hidden = isLeftOut || !words.every((word) => name.includes(word));
      matches += !body.hidden;
    }
    const all = count(table.tBodies.length, "run");
    shown.textContent = isAll ? all : `${matches} of ${all}`;
  };
  if (onlyAdded) onlyAdded.addEventListener("change", update);
  filter.addEventListener("input", update);
  update();
};

// Dialogues -------------------------------------------------------------------------------------

const ANSWERS = { y: "yes", n: "no", "-": "unreadable" };

const answerItem = (run, row, gold) => {
  const letter = run.answers[row];
  const right = letter === gold[row];
  const item = element("li");
  const yes = run.yes && run.yes[row] !== null ? `, ${(100 * run.yes[row]).toFixed(1)} % yes` : "";
  const mark = element(
    "span",
    `${right ? "✓" : "✗"} ${ANSWERS[letter]}`,
    right ? "answer-right" : "answer-wrong",
  );
  mark.append(element("span", right ? " (right)" : " (wrong)", "hidden"));
  item.append(element("bdi", run.name), " ", mark, yes);
  const response = run.responses && run.responses[row];
  if (response) {
    const opener = element("details");
    opener.append(element("summary", "response"), element("div", response, "response"));
    item.append(opener);
  }
  return item;
};

const startDialogues = () => {
  const data = embedded();
  const form = document.querySelector("[data-dialogue-filters]");
  const boxes = [...document.querySelectorAll("[data-runs] input")];
  const groups = [...document.querySelectorAll(".group")].map((section) => ({
    section,
    articles: [...section.querySelectorAll(".document")],
  }));
  const wrongInGroup = data.runs.map((run) => {
    const wrong = new Map();
    data.groups.forEach((group, row) => {
      if (run.answers[row] !== data.gold[row]) wrong.set(group, (wrong.get(group) || 0) + 1);
    });
    return wrong;
  });
  const showAnswers = () => {
    const runs = boxes.filter((box) => box.checked).map((box) => data.runs[Number(box.value)]);
    for (const { articles } of groups) {
      for (const article of articles) {
        const row = Number(article.dataset.row);
        const items = runs.map((run) => answerItem(run, row, data.gold));
        article.querySelector(".answers").replaceChildren(...items);
      }
    }
  };
  const outcomeOf = (row, number) => {
    if (data.runs[number].answers[row] === data.gold[row]) return ["right"];
    const alone = wrongInGroup[number].get(data.groups[row]) === 1;
    return alone ? ["wrong", "alone"] : ["wrong"];
  };
  const update = () => {
    const chosen = form.elements;
    const matches = (article) => {
      const { alteration, effect, row, breaks, disputed } = article.dataset;
      return (
        (!chosen.alteration.value || alteration === chosen.alteration.value) &&
        (!chosen.effect.value || effect === chosen.effect.value) &&
        (!chosen.breaks.checked || breaks !== undefined) &&
        (!chosen.disputed.checked || disputed !== undefined) &&
        (!chosen.outcome.value ||
          outcomeOf(Number(row), Number(chosen.run.value)).includes(chosen.outcome.value))
      );
    };
    let shownDocuments = 0;
    let shownGroups = 0;
    for (const { section, articles } of groups) {
      let inGroup = 0;
      for (const article of articles) {
        const match = matches(article);
        article.classList.toggle("other", !match);
        inGroup += match;
      }
      section.hidden = inGroup === 0;
      shownGroups += inGroup > 0;
      shownDocuments += inGroup;
    }
    document.body.classList.toggle("filtered", shownDocuments < data.groups.length);
    document.body.classList.toggle("changes-only", !chosen.whole.checked);
    form.querySelector("[data-count]").textContent =
      `${count(shownDocuments, "document")} in ${count(shownGroups, "group")}`;
  };
  const openLinked = () => {
    const linked = document.getElementById(location.hash.slice(1));
    if (!linked || !linked.matches(".group, .document")) return;
    if (linked.closest("[hidden]")) {
      form.reset();
      update();
    }
    linked.scrollIntoView();
    linked.focus({ preventScroll: true });
  };
  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(update));
  for (const box of boxes) box.addEventListener("change", showAnswers);
  window.addEventListener("hashchange", openLinked);
  showAnswers();
  update();
  openLinked();
};

// Two runs --------------------------------------------------------------------------------------

const intervalBar = (low, point, high, scale) => {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("class", "bar");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const place = (points) => 50 + (45 * points) / scale;
  const rect = (className, x, width, y = 0, height = 10) => {
    const made = document.createElementNS(namespace, "rect");
    const attributes = { class: className, x, y, width, height };
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    svg.append(made);
  };
  rect("track", 0, 100);
  rect("fill", place(low), place(high) - place(low));
  rect("zero", 49.8, 0.4);
  rect("mark", place(point) - 0.75, 1.5);
  return svg;
};

const negated = (points) => (points === null ? null : -points);

const signed = (points) =>
  points === null ? "-" : `${points < 0 ? "-" : "+"}${Math.abs(points).toFixed(2)}`;

const leavesOutZero = ([, low, high]) => low > 0 || high < 0;

const startCompare = () => {
  const data = embedded();
  const { dialogues } = document.getElementById("data").dataset;
  const form = document.querySelector("[data-compare]");
  const { first, second } = form.elements;
  const tags = [...document.querySelectorAll("[data-tags] > li")];
  const figure = (content) => element("td", String(content), "number");
  const row = (heading, cells) => {
    const made = element("tr");
    const name = element("th", heading);
    name.scope = "row";
    made.append(name, ...cells.map(figure));
    return made;
  };
  const update = () => {
    const [one, other] = [Number(first.value), Number(second.value)];
    const table = document.querySelector("[data-differences]").tBodies[0];
    const tests = document.querySelector("[data-tests]").tBodies[0];
    const verdict = document.querySelector("[data-verdict]");
    const lists = ["first", "second"].map((side) => document.querySelector(`[data-only=${side}]`));
    for (const part of [tests, ...lists]) part.replaceChildren();
    for (const line of table.rows) line.replaceChildren(line.cells[0]);
    tags.forEach((item, run) => (item.hidden = run !== one && run !== other));
    tags[other].parentElement.append(tags[one], tags[other]);
    if (one === other) {
      verdict.textContent = "Choose two different runs.";
      return;
    }
    history.replaceState(null, "", `#first=${data.slugs[one]}&second=${data.slugs[other]}`);
    const isFlipped = one > other; // the data has each pair once
    const pair = data.pairs[isFlipped ? `${other}-${one}` : `${one}-${other}`];
    const differences = pair.differences.map(([point, low, high]) =>
      isFlipped ? [negated(point), negated(high), negated(low)] : [point, low, high],
    );
    const scale = Math.max(5, ...differences.flatMap(([, low, high]) => [-low, high]));
    differences.forEach(([point, low, high], number) => {
      const percents = [one, other].map((run) => data.percents[run][number]);
      const interval = low === null ? "-" : `${low.toFixed(2)} to ${high.toFixed(2)}`;
      const drawn = element("td", "", "drawn");
      if (point !== null && low !== null) drawn.append(intervalBar(low, point, high, scale));
      const [difference, ends, ...figures] = [signed(point), interval, ...percents].map(figure);
      table.rows[number].append(difference, ends, drawn, ...figures);
    });
    for (const [unit, ahead, behind, p] of pair.tests) {
      tests.append(row(unit, isFlipped ? [behind, ahead, p] : [ahead, behind, p]));
    }
    verdict.textContent =
      `${data.runs[one]} and ${data.runs[other]}: p = ${pair.p} over groups, ` +
      (pair.differ ? "unlikely by chance alone." : "not told apart.") +
      (pair.differ === leavesOutZero(pair.differences[0])
        ? ""
        : ` The interval ${pair.differ ? "includes" : "leaves out"} 0 all the same: it is a ` +
          "bootstrap’s, which is approximate. Rely on the exact test.");
    [[one, other], [other, one]].forEach(([right, wrong], side) => {
      const only = [...data.right[right]]
        .flatMap((digit, place) =>
          digit === "1" && data.right[wrong][place] === "0" ? [data.numbers[place]] : [],
        );
      if (!only.length) lists[side].append(element("li", "nowhere"));
      for (const number of only) {
        const link = element(dialogues ? "a" : "bdi", `${data.unit === "group" ? "Group" : "Row"} ${number}`);
        if (dialogues) link.href = `${dialogues}#${data.unit}-${number}`;
        const item = element("li");
        item.append(link);
        lists[side].append(item);
      }
    });
  };
  const linked = new URLSearchParams(location.hash.slice(1));
  for (const select of [first, second]) {
    const chosen = data.slugs.indexOf(linked.get(select.name));
    if (chosen >= 0) select.value = String(chosen);
  }
  document.querySelector("[data-swap]").addEventListener("click", () => {
    [first.value, second.value] = [second.value, first.value];
    update();
  });
  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  update();
};

// -----------------------------------------------------------------------------------------------

const { page } = document.body.dataset;
document.querySelectorAll(".scroll").forEach(watchWidth);
if (page === "leaderboard") document.querySelectorAll("[data-board]").forEach(startBoard);
if (page === "dialogues") startDialogues();
if (page === "compare") startCompare();
