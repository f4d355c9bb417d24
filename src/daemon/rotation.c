/* src/daemon/rotation.c */
#include "daemon/rotation.h"

bool rotation_run(struct rotation *rotation, size_t n, size_t work, size_t slice, const struct rotation_ops *ops,
                  void *user)
{
    size_t idle = 0; /* that want nothing, in a row */
    while (work > 0 && idle < n) {
        size_t number = rotation->next % n;
        rotation->next = (number + 1) % n;
        if (!ops->wants(number, user)) {
            idle++;
            continue;
        }
        bool more = false;
        size_t spent = ops->turn(number, work < slice ? work : slice, &more, user);
        spent = spent == 0 ? 1 : spent;
        work -= spent < work ? spent : work;
        idle = more ? 0 : idle + 1;
    }
    return work == 0;
}
