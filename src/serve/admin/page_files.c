/* src/serve/admin/page_files.c */
#include "serve/admin/page_files.h"

#include <assert.h>

#include "serve/admin/page_data.h"

static_assert(sizeof(page_index_html) + sizeof(page_page_css) + sizeof(page_page_js) <= PAGE_FILES_MAX,
              "the page is to stay small");

#define BYTES(array)                                                                                                   \
    {                                                                                                                  \
        (const char *)(array), sizeof(array)                                                                           \
    }
static const struct page_file files[] = {
    {"/", "text/html; charset=utf-8", BYTES(page_index_html)},
    {"/page.css", "text/css; charset=utf-8", BYTES(page_page_css)},
    {"/page.js", "text/javascript; charset=utf-8", BYTES(page_page_js)},
};
#define N_FILES (sizeof(files) / sizeof(files[0]))

size_t page_files(const struct page_file **out)
{
    *out = files;
    return N_FILES;
}

const struct page_file *page_files_find(struct belfry_bytes path)
{
    for (size_t i = 0; i < N_FILES; i++) {
        if (belfry_bytes_equal(path, belfry_bytes_str(files[i].path)))
            return &files[i];
    }
    return NULL;
}
