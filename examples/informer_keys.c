#include <belfry/informer.h>
#include <stdio.h>

static enum belfry_next on_news(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    static const char *const words[] = {"", "added", "updated", "removed"};
    (void)user;
    if (news->object != NULL) { /* BELFRY_NEWS_ADDED, _UPDATED (news->old is the previous state), _REMOVED */
        struct belfry_bytes key = belfry_object_key(news->object), value = belfry_object_value(news->object);
        printf("%s %.*s=%.*s\n", words[news->kind], (int)key.len, key.data, (int)value.len, value.data);
    }
    if (news->kind == BELFRY_NEWS_SYNCED)
        printf("-- %zu objects, live from here --\n", belfry_informer_count(informer));
    if (news->why != NULL) /* BELFRY_NEWS_LINK, _END */
        printf("-- %s --\n", news->why);
    return BELFRY_MORE;
}

int main(int argc, char **argv) /* informer_keys [ENDPOINTS] */
{
    struct belfry *b = NULL;
    int err = belfry_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &b);
    if (!err)
        err = belfry_informer_keys(b, belfry_prefix("/services/"), NULL, on_news, NULL, NULL);
    if (!err)
        err = belfry_run(b, -1);
    if (err)
        fprintf(stderr, "informer_keys: %s\n", belfry_why(b));
    belfry_close(b);
    return err != 0;
}
