#include <belfry/informer.h>
#include <stdio.h>

static enum belfry_next on_news(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    static const char *const words[] = {"", "added", "updated", "removed"};
    (void)user;
    if (news->object != NULL) { /* BELFRY_NEWS_ADDED, _UPDATED (news->old is the previous state), _REMOVED */
        struct belfry_bytes key = belfry_object_key(news->object);
        char kind[64] = "";
        belfry_json_at(belfry_object_value(news->object), ".kind", kind, sizeof(kind), NULL); /* or any other path */
        printf("%s %s %.*s\n", words[news->kind], kind, (int)key.len, key.data);
    }
    if (news->kind == BELFRY_NEWS_SYNCED)
        printf("-- %zu objects, live from here --\n", belfry_informer_count(informer));
    if (news->why != NULL) /* BELFRY_NEWS_LINK, _END */
        printf("-- %s --\n", news->why);
    return BELFRY_MORE;
}

int main(int argc, char **argv) /* informer_resource [GROUP_VERSION PLURAL [NAMESPACE]] */
{
    struct belfry *b = NULL;
    struct belfry_kube *k = NULL;
    struct belfry_resource resource = belfry_resource("v1", "pods", NULL);
    if (argc > 2)
        resource = belfry_resource(argv[1], argv[2], argv[3]);
    int err = belfry_open(NULL, NULL, &b); /* a session without etcd */
    if (!err)
        err = belfry_kube_open(b, NULL, &k, NULL, 0); /* the server and user that kubectl would use */
    if (!err)
        err = belfry_informer_resource(k, resource, NULL, on_news, NULL, NULL);
    if (!err)
        err = belfry_run(b, -1);
    if (err)
        fprintf(stderr, "informer_resource: %s\n", belfry_why(b));
    belfry_close(b);
    return err != 0;
}
