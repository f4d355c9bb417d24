/* src/serve/admin/page_files.h
 *
 * page_files: the files of the page (src/serve/admin/page), which are a part of the program: cmake/Embed.cmake makes an
 * array of each. They refer to nothing outside of the admin address.
 *
 * Thread: any. Constant.
 */
#ifndef BELFRY_SERVE_ADMIN_PAGE_FILES_H
#define BELFRY_SERVE_ADMIN_PAGE_FILES_H

#include "base/bytes.h"

#define PAGE_FILES_MAX 60000 /* bytes of all of them */

/* What a browser may do with them: load and ask this address, and nothing else. */
#define PAGE_FILES_POLICY                                                                                              \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "              \
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

struct page_file {
    const char *path, *type;
    struct belfry_bytes bytes;
};

/* All of them; the first is the page itself, "/". Returns how many. */
size_t page_files(const struct page_file **out);

/* NULL: none has that path. */
const struct page_file *page_files_find(struct belfry_bytes path);

#endif
