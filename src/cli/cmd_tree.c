/* src/cli/cmd_tree.c: the tiers above and below a belfryd, as its admin address tells it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/http_get.h"
#include "cli/out/form.h"
#include "cli/out/out.h"
#include "cli/out/out_table.h"

/* What came is somebody else's: nothing in it may move the cursor. */
static void print_lines(const struct http_page *page)
{
    for (size_t at = 0; at < page->len;) {
        const char *line = page->body + at, *end = memchr(line, '\n', page->len - at);
        size_t len = end != NULL ? (size_t)(end - line) : page->len - at;
        table_bytes(stdout, (struct belfry_bytes){line, len}, false);
        putchar('\n');
        at += len + 1;
    }
}

enum exit_code cmd_tree(const struct flags *flags)
{
    const char *admin = flags->value[FLAG_ADMIN];
    char why[FLAGS_WHY > HTTP_GET_WHY ? FLAGS_WHY : HTTP_GET_WHY];
    struct http_page page = {0};
    enum form form;
    if (form_choose(flags, isatty(STDOUT_FILENO) == 1, &form, why) != BELFRY_OK ||
        form_refuse_etcds(form, "tree", why) != BELFRY_OK)
        return report_usage(why);
    const char *path = form == FORM_LINES ? "/debug/tree" : "/debug/tree?format=text";
    enum belfry_err err = http_get(admin, path, (int)flags_ms(flags, FLAG_COMMAND_TIMEOUT), &page, why);
    if (err == BELFRY_OK && page.status != 200) {
        snprintf(why, sizeof(why), "%.100s/debug/tree: answered %d: is that the admin address of a belfryd?", admin,
                 page.status);
        err = BELFRY_ERR_REFUSED;
    }
    if (err != BELFRY_OK) {
        http_page_fini(&page);
        return report_admin(err, why);
    }
    print_lines(&page);
    http_page_fini(&page);
    return out_flush() == OUT_BROKEN ? EXIT_FAILED : EXIT_DONE;
}
