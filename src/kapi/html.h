/* src/kapi/html.h: the readable part of an HTML page, as proxies send for errors. Thread: any. Pure. */
#ifndef BELFRY_KAPI_HTML_H
#define BELFRY_KAPI_HTML_H

#include "kapi/sentence.h"

/* Appends the page's title or, if it has none, its text without tags. A body that is not HTML is appended unchanged. */
void belfry_html_quote(struct belfry_sentence *sentence, struct belfry_bytes body);

#endif
