/* src/kapi/html.h: what a person would read first of a page of HTML, as proxies answer. Thread: any. Pure. */
#ifndef BELFRY_KAPI_HTML_H
#define BELFRY_KAPI_HTML_H

#include "kapi/sentence.h"

/* Appends the page's title, or, where it has none, its text without the tags; a body that is no HTML as it is. */
void belfry_html_quote(struct belfry_sentence *sentence, struct belfry_bytes body);

#endif
