// What is seen, and a line for commands. Text is set as textContent and value only, so none of it can come to life.

const INK = "color: var(--jp-ui-font-color1, inherit);";
const TEXT = INK + "white-space: pre-wrap; overflow-wrap: anywhere;";
const FIELD = INK + "background: transparent; border: 1px solid #8888; padding: 4px 8px; font: inherit;";

function add(parent, tag, style, attributes = {}) {
  const element = document.createElement(tag);
  element.style.cssText = style;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

function render({ model, el }) {
  // Every widget loads this module anew, so a counter would give all of them the same id.
  const id = `gagpo-console-${Math.random().toString(36).slice(2)}`;
  // The live regions stay in the page while their text changes: that is what makes a screen reader speak.
  const live = add(el, "div", "", { role: "status" });
  const status = add(live, "div", TEXT + "opacity: 0.8; margin-bottom: 2px");
  const seen = add(
    live,
    "div",
    TEXT + "max-height: 16em; overflow: auto; padding: 8px; border-left: 4px solid #0072B2; background: #8881",
    { tabindex: "0", role: "group", "aria-label": "observation" },
  );
  const error = add(el, "div", TEXT + "border-left: 4px solid #D55E00; padding: 0 8px", { role: "alert" });
  const form = add(el, "form", "display: flex; gap: 8px; align-items: center; margin-top: 8px");
  add(form, "label", INK, { for: id }).textContent = "Any command";
  const input = add(form, "input", FIELD + "flex: 1; max-width: 32em", {
    id, type: "text", list: `${id}-list`, autocomplete: "off", spellcheck: "false",
  });
  const list = add(form, "datalist", "", { id: `${id}-list` });
  const button = add(form, "button", FIELD + "cursor: pointer", { type: "submit" });
  button.textContent = "Play it";

  const update = () => {
    status.textContent = model.get("status");
    seen.textContent = model.get("observation");
    error.textContent = model.get("error");
    error.style.margin = model.get("error") ? "8px 0" : "0";
    input.disabled = button.disabled = model.get("disabled");
    form.style.opacity = model.get("disabled") ? "0.5" : "1";
    list.replaceChildren(
      ...model.get("suggestions").map((text) => {
        const option = document.createElement("option");
        option.value = text;
        return option;
      }),
    );
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    model.send({ command: input.value });
    input.value = "";
  });
  // The notebook's shortcuts must not act on what is typed here.
  el.addEventListener("keydown", (event) => event.stopPropagation());
  model.on("change", update);
  update();
  return () => model.off("change", update);
}

export default { render };
