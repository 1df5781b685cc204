  // Save a chart as a picture for a paper: the visible part, in the colours of paper, with its caption
  const {namespaceURI} = make('template', {innerHTML: '<svg></svg>'}).content.firstChild;
  const shape = (tag, properties, ...parts) => {
    const element = document.createElementNS(namespaceURI, tag);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
    element.append(...parts);
    return element;
  };
  const FONT = 'DejaVu Sans, Helvetica, Arial, sans-serif';
  const pen = make('canvas', {width: 1, height: 1}).getContext('2d', {willReadFrequently: true});
  const widthOf = (text, bold) => {
    pen.font = `${bold ? 'bold ' : ''}11px ${FONT}`;
    return pen.measureText(text).width;
  };
  // A colour of CSS in a form that drawing programs accept
  const painted = (paint, kind) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = paint;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    return {[kind]: `rgb(${red},${green},${blue})`, ...(alpha < 255 ? {[`${kind}-opacity`]: (alpha / 255).toFixed(2)} : {})};
  };
  const wrapped = (text, room, bold) => text.split(' ').reduce((lines, word) => {
    const longer = [...lines.slice(-1), word].join(' ');
    return lines.length && widthOf(longer, bold) <= room ? [...lines.slice(0, -1), longer] : [...lines, word];
  }, []);
  const called = (value, ...given) => typeof value === 'function' ? value(...given) : value;

  const pictureOf = (plot, [title, ...told]) => {
    const {width, height} = plot, left = plot.bbox.left / devicePixelRatio, top = plot.bbox.top / devicePixelRatio, wide = plot.bbox.width / devicePixelRatio, high = plot.bbox.height / devicePixelRatio;
    const near = value => Math.round(10 * value) / 10, x = value => near(left + plot.valToPos(value, 'x')), y = value => near(top + plot.valToPos(value, 'y')), [xs, ...values] = plot.data;
    const text = (content, at, properties = {}) => shape('text', {...at, ...painted(color('text'), 'fill'), ...properties}, content);
    const line = (path, paint, properties = {}) => shape('path', {d: path, fill: 'none', ...painted(paint, 'stroke'), ...properties});
    const pathOf = of => of.map((value, i) => value == null ? '' : `${i && of[i - 1] != null ? 'L' : 'M'}${x(xs[i])} ${y(value)}`).join('');
    const [bottom, side] = plot.axes, ticks = axis => axis._splits.map((at, i) => [at, axis._values[i]]).filter(([, label]) => label != null && label !== '');
    const frame = [
      ...ticks(bottom).flatMap(([at, label]) => [line(`M${x(at)} ${near(top)}v${near(high)}`, color('line')), text(label, {x: x(at), y: near(top + high + 16)}, {'text-anchor': 'middle'})]),
      ...ticks(side).flatMap(([at, label]) => [line(`M${near(left)} ${y(at)}h${near(wide)}`, color('line')), text(label, {x: near(left - 6), y: y(at) + 4}, {'text-anchor': 'end'})]),
      text(plot.marks.y, {x: 0, y: 0, transform: `translate(12 ${near(top + high / 2)}) rotate(-90)`}, {'text-anchor': 'middle'}),
      ...(plot.marks.x ? [text(plot.marks.x, {x: near(left + wide / 2), y: near(top + high + 34)}, {'text-anchor': 'middle'})] : []),
    ];
    const known = plot.series.map((one, i) => ({...one, i, paint: i && called(one.stroke, plot, i), of: values[i - 1]})).slice(1).filter(one => one.show);
    const inside = [
      ...plot.bands.map((band, i) => {
        const [upper, lower] = band.series.map(place => values[place - 1]), at = xs.map((_, i) => i).filter(i => upper[i] != null && lower[i] != null);
        return shape('path', {d: `M${[...at.map(i => `${x(xs[i])} ${y(upper[i])}`), ...at.reverse().map(i => `${x(xs[i])} ${y(lower[i])}`)].join('L')}Z`, ...painted(called(band.fill, plot, i), 'fill')});
      }),
      ...known.filter(one => one.paint && !one.crossed).flatMap(one => [
        line(pathOf(one.of), one.paint, {'stroke-width': one.width, ...(one.dash ? {'stroke-dasharray': one.dash.join(' ')} : {})}),
        ...(called(one.points.show, plot, one.i) ? one.of.map((value, i) => value == null ? null : shape('circle', {cx: x(xs[i]), cy: y(value), r: 2, ...painted(one.paint, 'fill')})).filter(Boolean) : []),
      ]),
      ...plot.marks.crossed.flatMap(of => of.map((value, i) => value == null ? null : line(`M${x(xs[i]) - 4} ${y(value) - 4}l8 8m-8 0l8-8`, color('bad'), {'stroke-width': 2})).filter(Boolean)),
      ...plot.marks.changes.filter(([at]) => at >= plot.scales.x.min && at <= plot.scales.x.max).flatMap(([at, what], i) => {
        const right = x(at) > left + wide / 2;
        return [line(`M${x(at)} ${near(top)}v${near(high)}`, color('text'), {'stroke-dasharray': '4 3'}), text(what, {x: x(at) + (right ? -5 : 5), y: near(top + 14 + 15 * (i % 4))}, {'text-anchor': right ? 'end' : 'start'})];
      }),
    ];
    let at = left, below = height + 8;
    const legend = known.filter(one => one.class !== 'none').flatMap(one => {
      const room = 34 + widthOf(one.label), band = plot.bands.find(band => !one.paint && band.series.includes(one.i));
      if (at > left && at + room > width) [at, below] = [left, below + 16];
      const key = band ? shape('rect', {x: near(at), y: below - 8, width: 18, height: 8, ...painted(called(band.fill, plot, 0), 'fill')})
        : one.crossed ? line(`M${near(at + 5)} ${below - 8}l8 8m-8 0l8-8`, color('bad'), {'stroke-width': 2}) : line(`M${near(at)} ${below - 4}h18`, one.paint, {'stroke-width': 2, ...(one.dash ? {'stroke-dasharray': one.dash.join(' ')} : {})});
      const parts = [key, text(one.label, {x: near(at + 22), y: below})];
      at += room;
      return parts;
    });
    const caption = [...wrapped(title, width - 16, true).map(words => [words, {'font-weight': 'bold'}]), ...told.flatMap(one => wrapped(one, width - 16)).map(words => [words, {}])];
    const lines = caption.map(([words, properties], i) => text(words, {x: 8, y: below + 24 + 15 * i}, properties)), whole = below + 24 + 15 * caption.length;
    const [x0, y0, room, deep] = [left - 4, top - 4, wide + 8, high + 8].map(near); // a drawing in a drawing cuts what is outside
    return shape('svg', {width, height: whole, viewBox: `0 0 ${width} ${whole}`, role: 'img', 'font-family': FONT, 'font-size': 11},
      shape('title', {}, title), shape('desc', {}, told.join(' ')), shape('rect', {width, height: whole, fill: 'white'}), ...frame, shape('svg', {x: x0, y: y0, width: room, height: deep, viewBox: `${x0} ${y0} ${room} ${deep}`}, ...inside), ...legend, ...lines);
  };

  const inPixels = async svg => {
    const image = new Image(), [width, height] = ['width', 'height'].map(name => Number(svg.getAttribute(name))), scale = 2400 / width;
    image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
    await image.decode();
    const canvas = make('canvas', {width: scale * width, height: scale * height});
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise(done => canvas.toBlob(done, 'image/png'));
  };
  // Buttons below a chart; `about` returns the lines of its caption, of which the first is the title
  const savable = (plot, about) => {
    const save = async kind => {
      document.documentElement.classList.add('paper');
      const lines = about(), svg = pictureOf(plot, lines);
      document.documentElement.classList.remove('paper');
      const content = kind === 'PNG' ? await inPixels(svg) : new Blob([new XMLSerializer().serializeToString(svg)], {type: 'image/svg+xml'}), href = URL.createObjectURL(content);
      make('a', {href, download: `${lines[0].replace(/[^A-Za-z0-9.=]+/g, '-').replace(/^-|-$/g, '').slice(0, 100)}.${kind.toLowerCase()}`}).click();
      setTimeout(() => URL.revokeObjectURL(href), 60000);
    };
    const button = kind => {
      const made = make('button', {type: 'button', ariaLabel: `${kind} of ${about()[0]}`}, kind);
      made.addEventListener('click', () => save(kind));
      return made;
    };
    plot.root.after(make('p', {className: 'save u'}, 'Save as ', button('SVG'), ' ', button('PNG')));
  };
  // The number of sessions that a chart shows, with the first and the last time
  const spanOf = plot => {
    const {min, max} = plot.scales.x, shown = plot.data[0].filter(at => at >= min && at <= max), day = at => new Date(1000 * at).toISOString().slice(0, 10);
    return shown.length ? `n = ${shown.length} sessions, ${day(shown[0])} to ${day(shown.at(-1))}` : 'n = 0 sessions';
  };
