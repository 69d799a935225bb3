// The pages work without this file. It adds copying, live progress, dialogs, dragging, times in the viewer's zone, the
// space key on links that look like buttons, and forms that keep their contents when the session ends.

/** Milliseconds between two updates of a page that shows something running. */
const intervalMs = 2_000;

const each = (attribute, act, root = document) => root.querySelectorAll(`[${attribute}]`).forEach(act);

/**
 * Returns the document at a URL of this service, or the page to which a sent form leads back. If another page answers,
 * such as the login after the session has ended, goes there and never returns.
 * @param form options of `fetch` that send a form
 */
async function load(url, form) {
  const response = await fetch(url, { ...form, headers: { accept: 'text/html' } });
  if (response.redirected && !(form && new URL(response.url).pathname === location.pathname)) {
    location.assign(response.url);
    await new Promise(() => undefined);
  }
  if (!response.ok) throw new Error(`status ${response.status}`);
  return documentIn(response);
}

const documentIn = async (response) => new DOMParser().parseFromString(await response.text(), 'text/html');

/** Prepares what scripts make better in a part of the page. Clicks and changes are handled for the whole document. */
function enhance(root) {
  root.querySelectorAll('time').forEach(showLocally);
  each('data-copy', (button) => (button.hidden = !navigator.clipboard), root);
  each('data-chooser', prepareChooser, root);
  each('data-suggest', prepareSuggestions, root);
  each('data-board', prepareBoard, root);
  each('method="post"', (form) => (form.noValidate = true), root); // the page marks all that is wrong at once
  root.querySelector('[aria-invalid="true"]')?.focus();
}

/** Calls a function when an event reaches an element with an attribute, now or later in the page. */
const on = (type, attribute, act) =>
  document.addEventListener(type, (event) => {
    const element = event.target.closest?.(`[${attribute}]`);
    if (element) act(element, event);
  });

/** Stops a form with a half typed date or number. The browser would send it as empty, and the stored value would go. */
addEventListener(
  'submit',
  (event) => {
    const half = [...event.target.elements].find(({ validity }) => validity?.badInput);
    half?.closest('details')?.setAttribute('open', '');
    // One that is not shown does not fit what was chosen.
    if (!half?.checkVisibility() || !event.target.noValidate) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    half.reportValidity();
  },
  true,
);

const moments = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const days = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' });

/**
 * Shows a time in the viewer's time zone, and in UTC while the mouse rests on it. Leaves a day without a time as it is.
 */
function showLocally(time) {
  const instant = new Date(time.dateTime);
  if (!time.dateTime.includes('T') || Number.isNaN(instant.valueOf()) || time.title !== '') return;
  time.title = time.textContent;
  time.textContent = (time.dataset.day === undefined ? moments : days).format(instant);
}

/** Suggests values while the user types. Reads them from the page that `data-suggest` names. */
function prepareSuggestions(input) {
  const showFound = input.matches('.find *') ? prepareSearch(input) : prepareChoices(input);
  let waiting;
  const show = async () => {
    const { value } = input;
    // Shorter texts are in no index.
    if (input.dataset.parameter && value.trim().length < 3) return showFound(undefined);
    const url = new URL(input.dataset.suggest, location.href);
    url.searchParams.set(input.dataset.parameter ?? 'q', value);
    const page = await load(url).catch(() => undefined);
    if (input.value === value) showFound(page);
  };
  input.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => void show(), 200);
  });
  input.addEventListener('focus', () => void show(), { once: true });
}

/** Returns a function that offers the values of a page for an input. */
function prepareChoices(input) {
  const list = document.createElement('datalist');
  list.id = `suggestions-${input.id || input.name}`;
  input.form.append(list); // in the label, the suggestions would be a part of its text
  input.setAttribute('list', list.id);
  return (page) => {
    const found = [...(page?.querySelectorAll('[data-value], main a[data-name]') ?? [])];
    const options = found.map(({ textContent: name, dataset: { name: about = '' } }) => {
      const mail = /\S+@\S+/.exec(about)?.[0];
      const isOf = (part) =>
        found.filter((one) => one.textContent === part || one.dataset.name?.includes(part)).length === 1;
      return new Option(about === '' ? name : `${name} · ${about}`, !isOf(name) && mail && isOf(mail) ? mail : name);
    });
    list.replaceChildren(...options);
  };
}

/** Returns a function that shows a page below the search. The arrow keys lead through its links, Escape closes it. */
function prepareSearch(input) {
  const { form } = input;
  const panel = document.createElement('div');
  Object.assign(panel, { className: 'panel', role: 'status', hidden: true });
  form.append(panel);
  form.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, Escape: 0 }[event.key];
    if (panel.hidden || step === undefined) return;
    event.preventDefault();
    panel.hidden = step === 0;
    const stops = [input, ...panel.querySelectorAll('a')];
    stops.at(step && (stops.indexOf(document.activeElement) + step) % stops.length).focus();
  });
  // In Safari a click focuses no link, and must not close the panel before it opens the link.
  form.addEventListener('focusout', ({ relatedTarget: to }) => (panel.hidden ||= to !== null && !form.contains(to)));
  return (page) => {
    panel.replaceChildren(...(page?.querySelectorAll('main > :not(.heading)') ?? []));
    panel.hidden = !page || document.activeElement !== input;
  };
}

/** A day of one's own stands for the days to choose from. */
on('input', 'name="due_at"', ({ form }) => {
  const none = form.querySelector('[name="due_on"][value=""]');
  if (none) none.checked = true;
});

/** Puts what stands before the last comma in front of each suggestion. */
on('input', 'data-several', ({ value, list }) => {
  const before = value.slice(0, value.lastIndexOf(',') + 1);
  for (const option of list?.options ?? []) option.value = `${before} ${option.text}`.trim();
});

/** Shows the row again in which a field was chosen, with what fits the field. */
on('change', 'data-row', async (select) => {
  const [form, row] = [select.form, select.closest('tr')];
  const body = new URLSearchParams(new FormData(form));
  body.set('do', select.dataset.row);
  row.sent = body;
  const page = await load(form.action, { method: 'POST', body });
  if (row.sent !== body) return; // the row has changed since
  const focused = row.contains(document.activeElement) && document.activeElement.name;
  const fresh = page.querySelectorAll('#rows tbody tr')[row.sectionRowIndex];
  row.replaceWith(fresh);
  for (const stale of form.querySelectorAll('.notice')) stale.remove();
  if (focused) fresh.querySelector(`[name="${focused}"]:not([type="hidden"])`)?.focus();
});

/** Lets users drag cards of the board to another stage. Sends a hidden form, then shows the changed board. */
function prepareBoard(board) {
  const form = document.querySelector('[data-moving]');
  const columnAt = ({ target }) => target.closest?.('[data-stage]');
  let dragged;
  board.addEventListener('dragstart', ({ target }) => (dragged = target.closest?.('[data-id]')));
  board.addEventListener('dragend', () => each('data-over', (column) => column.removeAttribute('data-over')));
  board.addEventListener('dragover', (event) => {
    const column = columnAt(event);
    if (!dragged || !column) return;
    event.preventDefault();
    each('data-stage', (one) => one.toggleAttribute('data-over', one === column));
  });
  board.addEventListener('drop', async (event) => {
    event.preventDefault();
    const [card, column] = [dragged, columnAt(event)];
    dragged = undefined;
    if (!card || !column || column.contains(card)) return;
    form.elements.namedItem('from').value = card.closest('[data-stage]').dataset.stage;
    form.elements.namedItem('stage_id').value = column.dataset.stage;
    column.querySelector(':scope > p, summary').after(card);
    try {
      const body = new URLSearchParams(new FormData(form));
      const page = await load(`/app/opportunities/${card.dataset.id}/move`, { method: 'POST', body });
      const main = document.querySelector('main');
      main.replaceChildren(...page.querySelector('main').childNodes);
      main.querySelector('[data-board]').scrollLeft = board.scrollLeft;
      enhance(main);
      main.querySelector(`[data-id="${card.dataset.id}"] a`)?.focus({ preventScroll: true });
    } catch {
      location.reload();
    }
  });
}

/** Adds a checkbox that chooses all rows of the page. Shows how many are chosen, and what can be done with them. */
function prepareChooser(form) {
  const boxes = [...form.querySelectorAll('[name="id"]')];
  const page = form.querySelector('[data-choose-page]');
  const shown = form.querySelector('[data-chosen]');
  const pageBox = page.querySelector('input');
  const all = form.elements.namedItem('all');
  const show = () => {
    const number = boxes.filter(({ checked }) => checked).length;
    form.querySelector('[data-acts]').hidden = number === 0 && !all?.checked;
    shown.textContent = all?.checked ? 'all chosen' : number === 0 ? '' : `${number} chosen`;
    pageBox.checked = number === boxes.length;
  };
  page.hidden = false;
  pageBox.addEventListener('change', () => {
    for (const box of boxes) box.checked = pageBox.checked;
  });
  form.addEventListener('change', show);
  show();
}

on('click', 'data-copy', async ({ dataset }) => {
  await navigator.clipboard.writeText(document.getElementById(dataset.copy).value);
  document.querySelector('[data-copied]').textContent = 'Copied to the clipboard.';
});

/** Disables the button of a form that is being sent. Otherwise a double click would send the form twice. */
on('submit', 'data-once', (_form, { submitter }) => {
  setTimeout(() => submitter?.setAttribute('disabled', ''));
});

on('change', 'data-submit', (select) => select.form.requestSubmit());

/** Key in the session storage for the contents of the form that was sent last. */
const keptName = 'sent-form';

const keptTypes = new Set('text email number date datetime-local url textarea radio checkbox select-one'.split(' '));

/**
 * Returns the fields of a form to store in the browser: without passwords and files, but with the record's version
 * (`etag`) and the ids of rows, which move with them.
 */
const keptFields = (form) =>
  [...form.elements].filter(({ type, name }) => keptTypes.has(type) || (type === 'hidden' && name !== 'form_token'));

on('input', 'data-keep', (form) => (form.isChanged = true));

/** Asks before somebody leaves a page whose form has changes that are not sent. */
addEventListener('beforeunload', (event) => {
  if ([...document.querySelectorAll('[data-keep]')].some(({ isChanged }) => isChanged)) event.preventDefault();
});

const userName = () => document.querySelector('.account .email')?.textContent;

/**
 * Stores the contents of a form that is being sent. If the session has ended, `restoreForm` uses them after the login.
 */
on('submit', 'data-keep', (form) => {
  form.isChanged = false;
  const fields = keptFields(form).map(({ name, value, checked }) => ({ name, value, checked }));
  sessionStorage.setItem(keptName, JSON.stringify({ user: userName(), action: form.action, fields }));
});

/** Restores the contents of a form after the same user has logged in again. Otherwise deletes them. */
function restoreForm() {
  if (location.pathname === '/app/login') return;
  const kept = JSON.parse(sessionStorage.getItem(keptName));
  sessionStorage.removeItem(keptName);
  if (!kept || kept.user !== userName() || !document.referrer.includes('/app/login')) return;
  const form = [...document.querySelectorAll('[data-keep]')].find(({ action }) => action === kept.action);
  const fields = form ? keptFields(form) : [];
  const named = (all, name) => all.filter((one) => one.name === name);
  for (const name of new Set(fields.map(({ name }) => name))) {
    const [shown, sent] = [named(fields, name), named(kept.fields, name)];
    // Rows that were added or taken out cannot be told apart, so they stay as they are shown.
    if (shown.length !== sent.length) continue;
    for (const [i, { value, checked }] of sent.entries())
      Object.assign(shown[i], /radio|checkbox/.test(shown[i].type) ? { checked } : { value });
  }
}

/** Gives the elements of a form new ids. In a dialog, the ids would otherwise repeat those of the page. */
function prefixIds(form) {
  for (const name of ['id', 'for', 'aria-describedby', 'list'])
    each(name, (one) => one.setAttribute(name, one.getAttribute(name).replaceAll(/\S+/g, 'dialog-$&')), form);
}

const tasks = () => [...document.querySelectorAll('.tasks > li')];

/** Remembers where a form was sent from, or its dialog opened, so that the next page puts the focus there. */
on('submit', 'action', (form) => {
  const link = form.closest('dialog')?.link;
  const [attribute, one] = link ? ['href', link] : ['action', form];
  const place = `[${attribute}="${CSS.escape(one.getAttribute(attribute))}"]`;
  sessionStorage.setItem('worked-on', JSON.stringify({ place, task: tasks().findIndex((task) => task.contains(one)) }));
});

/** Calls a function when the browser has gone to the fragment of the address, which takes the focus away. */
const afterFragment = (act) => requestAnimationFrame(() => requestAnimationFrame(act));

/** Puts the focus where the user worked on the page before: on what has moved, or on the next task. */
function restoreFocus() {
  const { place, task } = JSON.parse(sessionStorage.getItem('worked-on')) ?? {};
  sessionStorage.removeItem('worked-on');
  each('data-focus', (rows) => afterFragment(() => rows.querySelector(rows.dataset.focus)?.focus()));
  if (!place || document.activeElement !== document.body) return;
  const shown = task < 0 ? document.querySelector(`main a${place}`) : document.querySelector(`.tasks ${place}`);
  const found = shown ?? tasks()[Math.min(task, tasks().length - 1)];
  (found?.matches('a') ? found : found?.querySelector('button'))?.focus();
}

on('click', 'data-dialog', async (link, event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  try {
    const page = await load(link.href);
    const dialog = document.createElement('dialog');
    dialog.setAttribute('aria-labelledby', 'dialog-heading');
    dialog.link = link;
    dialog.addEventListener('close', () => (dialog.remove(), link.focus()));
    document.body.append(dialog);
    fill(dialog, page);
    dialog.showModal();
  } catch {
    location.assign(link.href);
  }
});

/** Shows the heading, the messages and the form of a page in a dialog. */
function fill(dialog, page) {
  const [content, heading] = ['article', 'h2'].map((name) => document.createElement(name));
  heading.id = 'dialog-heading';
  heading.textContent = page.querySelector('h1').textContent;
  const form = page.querySelector('main form');
  prefixIds(form);
  content.append(heading, ...page.querySelectorAll('main > .notice'), form);
  dialog.replaceChildren(content);
  enhance(dialog);
}

/**
 * Shows a refused form of a record in its dialog again. A form that is answered with a page, such as one with a new key,
 * must not be opened in a dialog: nobody would see that page.
 */
on('submit', 'data-keep', async (form, event) => {
  const dialog = form.closest('dialog');
  if (!dialog) return;
  event.preventDefault();
  try {
    const body = new URLSearchParams(new FormData(form, event.submitter));
    event.submitter?.setAttribute('disabled', '');
    const answer = await fetch(form.action, { method: 'POST', body, headers: { accept: 'text/html' } });
    if (answer.redirected) location.assign(answer.url);
    else fill(dialog, await documentIn(answer));
  } catch {
    form.submit();
  }
});

on('click', 'data-close', (link, event) => {
  const dialog = link.closest('dialog');
  if (!dialog) return;
  event.preventDefault();
  dialog.close();
});

let leftAt = -Infinity;
addEventListener('beforeunload', () => (leftAt = performance.now()));

/** Updates the `data-live` element regularly, until what it shows has ended. */
async function follow() {
  const live = document.querySelector('[data-live]');
  if (!live) return;
  try {
    if (document.visibilityState === 'visible') {
      const page = await load(location.href);
      const fresh = page.querySelector('[data-live]');
      // Once it has ended, the whole page is loaded: it then offers other things. That would stop a form that was sent.
      if (!fresh && performance.now() - leftAt > 10_000) return location.reload();
      const focused = live.contains(document.activeElement) && document.activeElement.getAttribute('href');
      live.replaceChildren(...(fresh ?? live).childNodes);
      enhance(live);
      if (focused) live.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
    }
  } catch {
    // The service or the network is down: try again.
  }
  setTimeout(() => void follow(), intervalMs);
}

on('click', 'data-dismiss', (link, event) => {
  event.preventDefault();
  location.replace(link.href); // so that the history no longer leads to the page with the key
});

/** Removes secrets from the page, so the browser does not keep them in its back/forward cache. */
addEventListener('pagehide', () => each('data-secret', (element) => element.remove()));

addEventListener('keydown', (event) => {
  if (event.key !== ' ' || !event.target.matches?.('a[role="button"]')) return;
  event.preventDefault();
  if (!event.repeat) event.target.click();
});

/** Handles shortcuts: `/` focuses the search of the list, or else the one for contacts, and `c` focuses the text of a new note or task. */
addEventListener('keydown', (event) => {
  const isTyping = event.target.closest?.('input, textarea, select, dialog');
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const selectors = { '/': ['main [type="search"]', '[type="search"]'], c: ['#compose textarea'] }[event.key] ?? [];
  const input = selectors.map((one) => document.querySelector(one)).find(Boolean);
  if (!input) return;
  event.preventDefault();
  input.focus();
});

enhance(document);
restoreForm();
restoreFocus();
setTimeout(() => void follow(), intervalMs);
