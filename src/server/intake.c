/* src/server/intake.c */
#include "server/intake.h"

void intake_init(struct intake *intake, void (*end)(struct intake_conn *conn, void *user), void *user)
{
    *intake = (struct intake){.end = end, .user = user};
    belfry_list_init(&intake->conns);
}

void intake_join(struct intake *intake, struct intake_conn *conn)
{
    *conn = (struct intake_conn){.intake = intake};
    belfry_list_init(&conn->node);
}

void intake_leave(struct intake_conn *conn)
{
    if (conn->intake == NULL || conn->ending)
        return;
    belfry_list_remove(&conn->node);
    conn->ending = true;
    conn->intake->leaving += conn->bytes;
}

void intake_count(struct intake_conn *conn, size_t before, size_t after)
{
    struct intake *intake = conn->intake;
    if (intake == NULL || before == after)
        return;
    conn->bytes = conn->bytes - before + after;
    if (conn->ending)
        intake->leaving = intake->leaving - before + after;
    else if (conn->bytes == 0)
        belfry_list_remove(&conn->node);
    else if (belfry_list_empty(&conn->node))
        belfry_list_append(&intake->conns, &conn->node);
}

/* NULL: no share reaches INTAKE_LEAST. */
static struct intake_conn *intake_largest(const struct intake *intake)
{
    struct intake_conn *best = NULL;
    size_t most = INTAKE_LEAST - 1;
    belfry_list_each (node, &intake->conns) {
        struct intake_conn *conn = belfry_container(node, struct intake_conn, node);
        if (conn->bytes > most) {
            most = conn->bytes;
            best = conn;
        }
    }
    return best;
}

bool intake_has_room(struct intake *intake, struct intake_conn *asker, size_t used, size_t max)
{
    if (intake == NULL)
        return used <= max;
    while (used > max && used - max > intake->leaving) {
        struct intake_conn *conn = intake_largest(intake);
        if (conn == NULL)
            return false;
        intake_leave(conn);
        intake->ended++;
        intake->end(conn, intake->user);
        if (conn == asker)
            return false;
    }
    return asker == NULL || !asker->ending;
}
