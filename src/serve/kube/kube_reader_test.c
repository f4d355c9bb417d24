/* src/serve/kube/kube_reader_test.c: a worker's thread, the reader's, and pages between the two. */
#include "serve/kube/kube_reader.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/refuse.h"

/* A store of no rows that answers when it is let, and knows who asked. */
static struct gate {
    struct store store;
    pthread_mutex_t mu;
    pthread_cond_t moved;
    bool open;
    size_t inside, reads;
    pthread_t reader;
} gate = {.mu = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void read_snapshot(struct store *store, struct store_meta *out)
{
    (void)store;
    *out = (struct store_meta){.revision = 9, .oldest = 1};
}

static enum belfry_err read_range(struct store *store, const struct store_read *read, store_row_fn row, void *user,
                                  struct store_page *out)
{
    (void)store, (void)read, (void)row, (void)user;
    pthread_mutex_lock(&gate.mu);
    gate.reader = pthread_self();
    gate.reads++;
    gate.inside++;
    pthread_cond_broadcast(&gate.moved);
    while (!gate.open)
        pthread_cond_wait(&gate.moved, &gate.mu);
    gate.inside--;
    pthread_mutex_unlock(&gate.mu);
    *out = (struct store_page){.meta = {.revision = 9, .oldest = 1}, .at = 9};
    return BELFRY_OK;
}

static const struct store_api api = {.snapshot = read_snapshot, .range = read_range};

static void let_go(bool open)
{
    pthread_mutex_lock(&gate.mu);
    gate.open = open;
    pthread_cond_broadcast(&gate.moved);
    pthread_mutex_unlock(&gate.mu);
}

/* ---- the worker ---- */

struct house {
    struct thread *thread;
    struct kube_reader *reader;
    struct kube_page pages[KUBE_LISTS];
    pthread_t worker;
    /* under gate.mu */
    size_t n_back, n_elsewhere; /* elsewhere: on another thread than the worker's */
    size_t n_read, n_canceled;
    size_t again; /* so many are sent once more as they come back */
};

static struct history_reader *history;

static enum belfry_err begin(struct thread *thread, void *user)
{
    struct house *house = user;
    house->worker = pthread_self();
    return kube_reader_create(&history, NULL, thread, &house->reader);
}

static void end(struct thread *thread, void *user)
{
    (void)thread;
    struct house *house = user;
    kube_reader_destroy(house->reader);
}

static void on_back(struct kube_page *page, void *user)
{
    struct house *house = user;
    pthread_mutex_lock(&gate.mu);
    house->n_read += page->err == BELFRY_OK && page->rev == 9;
    house->n_canceled += page->err == BELFRY_ERR_CANCELED;
    house->n_elsewhere += !pthread_equal(pthread_self(), house->worker);
    bool again = house->again > 0;
    house->again -= again;
    house->n_back++;
    pthread_cond_broadcast(&gate.moved);
    pthread_mutex_unlock(&gate.mu);
    if (again)
        house->reader->read(house->reader, page, on_back, user);
}

struct order {
    struct mail mail;
    size_t n;
};

static void open_order(struct mail *mail, void *owner)
{
    struct order *order = belfry_container(mail, struct order, mail);
    struct house *house = owner;
    assert_non_null(house);
    for (size_t i = 0; i < order->n; i++) {
        house->pages[i] = (struct kube_page){.as = KUBE_PAGE_OBJECT, .limit = 1};
        house->reader->read(house->reader, &house->pages[i], on_back, house);
    }
}

static void start(struct house *house)
{
    static const struct thread_part part = {"belfry-test", begin, end};
    gate.store.api = &api;
    gate.open = false;
    gate.inside = gate.reads = 0;
    struct history_reader_opts opts = {.store = &gate.store, .segment_bytes = 1000, .shelf_bytes = 1000};
    assert_int_equal(history_reader_start(&opts, &history), BELFRY_OK);
    assert_int_equal(thread_start(&part, house, &house->thread), BELFRY_OK);
}

static void stop_history(void)
{
    history_reader_stop(history);
    history_reader_destroy(history);
}

static void wait_back(struct house *house, size_t n)
{
    pthread_mutex_lock(&gate.mu);
    while (house->n_back < n)
        pthread_cond_wait(&gate.moved, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
}

static void wait_inside(void)
{
    pthread_mutex_lock(&gate.mu);
    while (gate.inside == 0)
        pthread_cond_wait(&gate.moved, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
}

/* ---- tests ---- */

static void pages_are_read_on_the_readers_thread_and_come_back_to_the_workers(void **state)
{
    (void)state;
    static struct house house;
    house = (struct house){.again = 10}; /* each envelope is used more than once */
    start(&house);
    let_go(true);
    struct order order = {.mail.open = open_order, .n = KUBE_LISTS};
    thread_post(house.thread, &order.mail);
    wait_back(&house, KUBE_LISTS + 10);
    thread_stop(house.thread);
    assert_int_equal(house.n_read, KUBE_LISTS + 10);
    assert_int_equal(house.n_elsewhere, 0);
    assert_int_equal(gate.reads, KUBE_LISTS + 10);
    assert_false(pthread_equal(gate.reader, house.worker));
    stop_history();
    thread_destroy(house.thread);
    assert_int_equal(refuse_held(), 0);
}

static void pages_of_a_worker_that_has_ended_come_back_all_the_same(void **state)
{
    (void)state;
    static struct house house;
    house = (struct house){0};
    start(&house);
    struct order order = {.mail.open = open_order, .n = 5};
    thread_post(house.thread, &order.mail);
    wait_inside(); /* the first is being read, four wait */
    thread_stop(house.thread);
    assert_int_equal(house.n_back, 0);
    let_go(true);
    stop_history();
    assert_int_equal(house.n_back, 5);
    assert_int_equal(house.n_read + house.n_canceled, 5);
    assert_true(house.n_read >= 1 && house.n_elsewhere == 5);
    thread_destroy(house.thread);
    assert_int_equal(refuse_held(), 0);
}

static enum belfry_err scenario(void)
{
    struct kube_reader *reader;
    enum belfry_err err = kube_reader_create(&history, NULL, NULL, &reader);
    if (err == BELFRY_OK)
        kube_reader_destroy(reader);
    return err;
}

static void without_memory_there_is_no_reader(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 1);
    kube_reader_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_read_on_the_readers_thread_and_come_back_to_the_workers),
        cmocka_unit_test(pages_of_a_worker_that_has_ended_come_back_all_the_same),
        cmocka_unit_test(without_memory_there_is_no_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
