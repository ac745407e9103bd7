"""The dashboard: what runs are doing, why something is masked, where the time went, what is kept.

A Panel application over the queries of the store; it reads run directories, and writes nothing. Its parts::

    escape      the one place where text becomes markup; everything on a page is built with ``el``
    state       what a link says: view, filters, page; a typed record, parsed from the URL
    context     what a view gets: the index, the state, the time, and ``link``
    view        what a view is: a name, a title, and ``render(context) -> Html``
    show        numbers, times, words: pills in the colours of ``swe_sdk.notebook.palette``
    components  tables, bars, cards, tabs, empty states, errors
    forms       filters
    charts      small SVG drawings with titles and links
    views/      the views, a file each
    session     one viewer: takes clicks, renders, sends what changed
    live        one clock for all viewers: who has to be rendered again
    app, server the page, its server, who may see it

How a view is written: ``render`` is a function of the store and of the state alone, called again whenever either
changes. It keeps nothing, and takes milliseconds. A filter, a tab, a page, a sort is a link (``context.link``) or a
form (``forms.filter_form``) that leads to another state, so that everything a viewer sees has a URL. Elements that
should keep focus, scroll or selection while their neighbours change get a ``key``. Times that grow are ``show.ago``,
which counts in the browser, so that an idle page is never sent again.
"""
