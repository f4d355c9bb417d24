/* src/thread/mail_test.c */
#include "thread/mail.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "thread/thread.h"

#define N_THREADS 4
#define N_LETTERS 2000

struct desk { /* whom letters come to */
    int last[N_THREADS];
    size_t n;
};

struct letter {
    struct mail mail;
    int from, number;
    size_t *lost; /* counts those that found nobody */
};

static void open_letter(struct mail *mail, void *owner)
{
    struct letter *letter = belfry_container(mail, struct letter, mail);
    struct desk *desk = owner;
    if (desk == NULL) {
        ++*letter->lost;
    } else {
        assert_int_equal(letter->number, desk->last[letter->from] + 1);
        desk->last[letter->from] = letter->number;
        desk->n++;
    }
    free(letter);
}

static void post(struct mailbox *box, int from, int number, size_t *lost)
{
    struct letter *letter = malloc(sizeof(*letter));
    assert_non_null(letter);
    *letter = (struct letter){.mail.open = open_letter, .from = from, .number = number, .lost = lost};
    mailbox_post(box, &letter->mail);
}

struct sender {
    struct mailbox *box;
    int number;
    size_t lost;
};

static void *send_many(void *arg)
{
    struct sender *sender = arg;
    for (int i = 1; i <= N_LETTERS; i++)
        post(sender->box, sender->number, i, &sender->lost);
    return NULL;
}

static void letters_of_many_threads_arrive_in_the_order_of_each(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct desk desk = {0};
    struct mailbox *box;
    struct sender senders[N_THREADS];
    pthread_t ids[N_THREADS];
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(mailbox_create(&loop, &desk, &box), BELFRY_OK);
    for (int i = 0; i < N_THREADS; i++) {
        senders[i] = (struct sender){box, i, 0};
        assert_int_equal(pthread_create(&ids[i], NULL, send_many, &senders[i]), 0);
    }
    while (desk.n < (size_t)N_THREADS * N_LETTERS)
        uv_run(&loop, UV_RUN_ONCE);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(ids[i], NULL);
    mailbox_close(box);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    mailbox_destroy(box);
}

static void letters_to_a_closed_box_find_nobody(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct desk desk = {0};
    struct mailbox *box;
    size_t lost = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(mailbox_create(&loop, &desk, &box), BELFRY_OK);
    post(box, 0, 1, &lost); /* waits when the box is closed */
    mailbox_close(box);
    assert_int_equal(lost, 1);
    post(box, 0, 2, &lost);
    mailbox_wake(box);
    assert_int_equal(lost, 2);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(desk.n, 0);
    mailbox_destroy(box);
}

/* ---- threads ---- */

struct house {
    enum belfry_err err; /* begin's result */
    int begun, ended;
};

static enum belfry_err begin(struct thread *thread, void *user)
{
    (void)thread;
    struct house *house = user;
    house->begun++;
    return house->err;
}

static void end(struct thread *thread, void *user)
{
    (void)thread;
    struct house *house = user;
    house->ended++;
}

static const struct thread_part part = {"belfry-test", begin, end};

static void thread_begins_takes_mail_and_ends(void **state)
{
    (void)state;
    struct house house = {0};
    struct thread *thread = NULL;
    assert_int_equal(thread_start(&part, &house, &thread), BELFRY_OK);
    assert_int_equal(house.begun, 1);
    thread_wake(thread);
    thread_stop(thread);
    assert_int_equal(house.ended, 1);
    size_t lost = 0;
    struct letter *letter = malloc(sizeof(*letter));
    assert_non_null(letter);
    *letter = (struct letter){.mail.open = open_letter, .lost = &lost};
    thread_post(thread, &letter->mail);
    assert_int_equal(lost, 1);
    thread_destroy(thread);
}

static void thread_that_cannot_begin_says_why_and_is_gone(void **state)
{
    (void)state;
    struct house house = {.err = BELFRY_ERR_IO};
    struct thread *thread = NULL;
    assert_int_equal(thread_start(&part, &house, &thread), BELFRY_ERR_IO);
    assert_null(thread);
    assert_int_equal(house.ended, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_of_many_threads_arrive_in_the_order_of_each),
        cmocka_unit_test(letters_to_a_closed_box_find_nobody),
        cmocka_unit_test(thread_begins_takes_mail_and_ends),
        cmocka_unit_test(thread_that_cannot_begin_says_why_and_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
