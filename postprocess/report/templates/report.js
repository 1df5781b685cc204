(() => {
  // What a link inside the page names is shown: the details of a metric or case as a dialog
  const open = () => {
    const dialog = document.getElementById(location.hash.slice(1));
    for (const other of document.querySelectorAll('dialog[open]')) if (other !== dialog) other.close();
    if (dialog?.tagName === 'DIALOG' && !dialog.open) dialog.showModal();
  };
  // Closed, by the link or by Escape: the address forgets it, and the page is where it was
  let top = 0;
  const forget = dialog => {
    if (location.hash.slice(1) !== dialog.id) return;
    history.replaceState(null, '', location.pathname + location.search);
    scrollTo(0, top);
  };
  document.addEventListener('close', event => forget(event.target), true);
  document.addEventListener('click', event => {
    if (event.target.tagName === 'DIALOG' || event.target.closest('.close')) {
      const dialog = event.target.closest('dialog');
      event.preventDefault();
      dialog.close();
      forget(dialog);
    } else if (event.target.closest('a[href^="#"]') && !event.target.closest('dialog')) top = scrollY;
  });
  addEventListener('hashchange', open);
  open();

  const table = document.getElementById('verdicts'), rows = [...table.tBodies[0].rows];
  const texts = rows.map(row => row.textContent.toLowerCase());
  const search = document.getElementById('search'), verdict = document.getElementById('verdict');
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    let shown = 0;
    rows.forEach((row, i) => {
      const fits = (!verdict.value || row.dataset.verdict === verdict.value) && words.every(word => texts[i].includes(word));
      row.hidden = !fits;
      shown += fits;
    });
    document.getElementById('shown').textContent = `${shown} of ${rows.length} metrics`;
  };
  search.addEventListener('input', filter);
  verdict.addEventListener('change', filter);
  for (const link of document.querySelectorAll('[data-only]')) link.addEventListener('click', () => {
    verdict.value = link.dataset.only;
    search.value = '';
    filter();
  });
  for (const link of document.querySelectorAll('[data-search]')) link.addEventListener('click', () => {
    verdict.value = '';
    search.value = link.dataset.search;
    filter();
  });
  // A page in a file or behind plain HTTP may have no clipboard: the command is selected then, and copied as of old
  for (const code of document.querySelectorAll('.next code')) {
    const button = document.createElement('button');
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = 'Copied';
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = document.execCommand('copy') ? 'Copied' : 'Selected';
      }
    });
    code.after(button);
  }
  for (const filters of document.querySelectorAll('.filters')) filters.hidden = false;
  filter();

  // A table is sorted by a click on a title; the state of its rows and of their texts is shared with its search
  const sortable = (table, rows, texts) => {
    const value = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.textContent === 'Samples') return;
      const button = document.createElement('button');
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener('click', () => {
        const down = head.hasAttribute('aria-sort') ? head.ariaSort === 'ascending' : head.matches('.worst');
        const sign = down ? -1 : 1;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
        head.setAttribute('aria-sort', sign === 1 ? 'ascending' : 'descending');
        const numeric = head.matches('.r, .n');
        const order = rows.map((row, i) => [value(row, column), row, texts[i]]);
        order.sort(([x], [y]) => {
          if (!x || !y) return !x - !y;
          return sign * (numeric ? parseFloat(x) - parseFloat(y) : x.localeCompare(y));
        });
        order.forEach(([, row, text], i) => { rows[i] = row; texts[i] = text; });
        table.tBodies[0].append(...rows);
      });
    });
  };
  sortable(table, rows, texts);
  for (const box of document.querySelectorAll('[data-of]')) {
    const own = document.getElementById(box.dataset.of), nodes = [...own.tBodies[0].rows];
    const names = nodes.map(row => row.textContent.toLowerCase());
    const find = () => {
      const words = box.value.toLowerCase().split(/\s+/);
      nodes.forEach((row, i) => { row.hidden = !words.every(word => names[i].includes(word)); });
      box.closest('.filters').querySelector('output').textContent =
        `${nodes.filter(row => !row.hidden).length} of ${nodes.length} nodes`;
    };
    box.addEventListener('input', find);
    sortable(own, nodes, names);
    find();
  }
})();
