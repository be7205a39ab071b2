// Takes a reviewer's decisions by key and button, keeps them, and saves them as a file.

const { digest } = document.body.dataset;
const form = document.querySelector("[data-settings]");
const { reviewer: nameField, show, blind, advance, removed, keys: singleKeys } = form.elements;
const note = document.querySelector("[name=note]");
const help = document.querySelector("dialog");
const articles = [...document.querySelectorAll("article")];
const ANSWERS = ["yes", "no", "undetermined", "reject"];

// What is kept ----------------------------------------------------------------------------------

// Files share a browser's storage, so each key names the folder, by the digest of its first document.
const nameKey = `pragworld-reviewer ${digest}`;
const settingsKey = `pragworld-review-settings ${digest}`;
const entriesKey = (reviewer) => `pragworld-review ${digest} ${reviewer}`;

const kept = (key) => {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
};

const keep = (key, value) => {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    say("This browser keeps nothing: save before you close the page.");
  }
};

let name = ""; // without one, notes wait for it
let entries = kept(entriesKey("")) || {}; // decision and note by the digest of the document
let undone = []; // what each decision replaced, the last one at the end
let current = null;

const entryOf = (article) => entries[article.dataset.digest] || { decision: "", note: "" };

const setEntry = (article, entry) => {
  entries = kept(entriesKey(name)) || entries; // another tab may have added to them
  if (entry.decision || entry.note) entries[article.dataset.digest] = entry;
  else delete entries[article.dataset.digest];
  keep(entriesKey(name), entries);
};

// What is shown ---------------------------------------------------------------------------------

const say = (text) => {
  document.querySelector("[data-status]").textContent = text;
};

const isDecided = (article) => entryOf(article).decision !== "";

const shownArticles = () =>
  articles.filter((article) => !show.value || article.dataset.state === show.value);

const update = () => {
  const shown = shownArticles();
  const decided = shown.filter(isDecided).length;
  if (current) current.classList.toggle("blind", blind.checked && !isDecided(current));
  document.body.classList.toggle("plain", !removed.checked);
  const { decision, note: text } = current ? entryOf(current) : { decision: "", note: "" };
  for (const button of document.querySelectorAll("[data-action]")) {
    const { action } = button.dataset;
    if (ANSWERS.includes(action)) button.setAttribute("aria-pressed", String(action === decision));
  }
  if (note !== document.activeElement) note.value = text;
  const bar = document.querySelector("progress");
  bar.max = Math.max(shown.length, 1);
  bar.value = decided;
  document.querySelector("[data-progress]").textContent = current
    ? `document ${shown.indexOf(current) + 1} of ${shown.length}, ${decided} decided`
    : "no documents";
};

const open = (article) => {
  if (current) current.hidden = true;
  current = article;
  if (current) current.hidden = false;
  update();
};

const focusOn = (article) => {
  article.focus({ preventScroll: true });
  document.getElementById("main").scrollIntoView();
};

const goTo = (article) => {
  open(article);
  history.replaceState(null, "", `#${article.id}`); // where a reload starts
  focusOn(article);
};

const openBeside = (step) => {
  const shown = shownArticles();
  const next = shown[shown.indexOf(current) + step];
  if (next) {
    say("");
    goTo(next);
  } else say(step > 0 ? "This is the last document." : "This is the first document.");
};

const openUndecided = (said = "") => {
  const shown = shownArticles();
  const place = shown.indexOf(current) + 1;
  const next = [...shown.slice(place), ...shown.slice(0, place)].find((one) => !isDecided(one));
  if (next) {
    say(said);
    goTo(next);
  } else say("All of these documents are decided. Save your decisions.");
};

// What is decided -------------------------------------------------------------------------------

const askForName = () => {
  nameField.focus();
  say("Write your name first: the file of your decisions needs it.");
};

const decide = (decision) => {
  if (!current) return;
  if (!name) {
    askForName();
    return;
  }
  const before = entryOf(current);
  undone.push([current, before.decision]);
  setEntry(current, { ...before, decision });
  update();
  say(`Decided: ${decision}.`);
  if (advance.checked) openUndecided(`Decided: ${decision}. This is the next document.`);
};

const accept = () => {
  if (!current) return;
  const { proposal } = current.dataset;
  if (current.classList.contains("blind")) {
    say("The panel's proposal is hidden: decide yourself, or turn blind off (b).");
  } else if (proposal) decide(proposal);
  else say("The panel proposes nothing: its votes have no majority.");
};

const undo = () => {
  const last = undone.pop();
  if (!last) {
    say("Nothing to undo.");
    return;
  }
  const [article, decision] = last;
  setEntry(article, { ...entryOf(article), decision });
  if (!shownArticles().includes(article)) show.value = "";
  goTo(article);
  say("Undone.");
};

const save = () => {
  const decided = articles.filter(isDecided);
  if (!name) {
    askForName();
    return;
  }
  if (!decided.length) {
    say("Nothing to save: decide something first.");
    return;
  }
  const content = {
    version: 1,
    reviewer: name,
    decisions: decided.map((article) => ({
      conversation: Number(article.dataset.conversation),
      variant: Number(article.dataset.variant),
      digest: article.dataset.digest,
      ...entryOf(article),
    })),
  };
  const link = document.createElement("a");
  const text = `${JSON.stringify(content, null, 2)}\n`;
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const slug = name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  link.download = `decisions-${slug || "reviewer"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  const count = `${decided.length} decision${decided.length === 1 ? "" : "s"}`;
  const command = `pragworld-tasks review FOLDER --apply ${link.download}`;
  say(`Saved ${count} as ${link.download}, where your browser saves files. Next: ${command}`);
};

const takeName = () => {
  const written = nameField.value.trim().replace(/\s+/g, " ");
  if (written === name) return;
  const unsigned = name ? {} : entries;
  name = written;
  undone = [];
  entries = kept(entriesKey(name)) || {};
  for (const [id, { note: text }] of Object.entries(unsigned)) {
    const { decision = "", note: before = "" } = entries[id] || {};
    entries[id] = { decision, note: [before, text].filter(Boolean).join("\n") };
  }
  keep(entriesKey(name), entries);
  keep(entriesKey(""), {});
  keep(nameKey, name);
  update();
  say(name ? `The decisions of ${name}.` : "");
};

// Keys and buttons ------------------------------------------------------------------------------

const actions = {
  next: () => openBeside(1),
  previous: () => openBeside(-1),
  undecided: () => openUndecided(),
  accept,
  undo,
  save,
  help: () => help.showModal(),
  note: () => note.focus(),
  blind: () => {
    blind.checked = !blind.checked;
    update();
    say(blind.checked ? "Blind: the panel is hidden until you decide." : "The panel is shown.");
  },
  removed: () => {
    removed.click();
    say(removed.checked ? "Removed words are shown." : "Removed words are hidden.");
  },
};
for (const decision of ANSWERS) actions[decision] = () => decide(decision);

const ACTION_OF_KEY = {
  j: "next",
  ArrowRight: "next",
  k: "previous",
  ArrowLeft: "previous",
  f: "undecided",
  y: "yes",
  n: "no",
  u: "undetermined",
  a: "accept",
  r: "reject",
  z: "undo",
  m: "note",
  b: "blind",
  d: "removed",
  s: "save",
  "?": "help",
};

document.addEventListener("keydown", (event) => {
  const writing = event.target.matches("input[type=text], textarea, select");
  if (writing && event.key === "Escape") {
    if (current) focusOn(current);
    return;
  }
  const action = ACTION_OF_KEY[event.key];
  const chord = event.ctrlKey || event.metaKey || event.altKey;
  if (!action || writing || chord || help.open || !singleKeys.checked) return;
  event.preventDefault();
  actions[action]();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-action]");
  if (button) actions[button.dataset.action]();
});

note.addEventListener("input", () => {
  if (!current) return;
  setEntry(current, { ...entryOf(current), note: note.value });
  if (!name) say("Write your name, too: this note is kept under it.");
});
nameField.addEventListener("change", takeName);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  takeName();
  if (!name) askForName();
  else if (current) focusOn(current);
});
show.addEventListener("change", () => {
  const shown = shownArticles();
  open(shown.includes(current) ? current : shown[0] || null);
});
form.addEventListener("change", () => {
  keep(settingsKey, { advance: advance.checked, removed: removed.checked });
  update();
});

// -----------------------------------------------------------------------------------------------

const settings = kept(settingsKey) || { advance: false, removed: true };
advance.checked = settings.advance;
removed.checked = settings.removed;
nameField.value = kept(nameKey) || "";
takeName();
const linked = document.getElementById(location.hash.slice(1));
if (articles.includes(linked) && !shownArticles().includes(linked)) show.value = "";
open(articles.includes(linked) ? linked : shownArticles()[0] || null);
if (!name) nameField.focus();
else if (current) focusOn(current);
