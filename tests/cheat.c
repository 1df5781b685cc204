/* cheat HOW CPU SECONDS [CODE]   keeps CPUs busy for SECONDS, and moves to CPU (-1: all CPUs):
 *   honest, start, middle   the whole process: never, at once, after half of the time
 *   thread, child           one thread of three, whose first one sleeps; a child process
 *   crowd                   nothing moves: CPU threads run
 *   daemon, brief, closed   a child that init adopts; threads of 5 ms, one after the other, for so much CPU time; after
 *                           all files are closed
 *   lowered                 nothing moves: it runs with SCHED_BATCH, so long by its CPU time
 * It ends with exit code CODE (7), or 9 if it has a child that it did not start. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int cpu;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void move(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (cpu < 0 || i == cpu)
            CPU_SET(i, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        exit(1);
}

static void run(double seconds) {
    for (double end = now() + seconds; now() < end;)
        ;
}

static void *honest(void *seconds) {
    run(*(double *)seconds);
    return NULL;
}

static void *moved(void *seconds) {
    move();
    return honest(seconds);
}

int main(int count, char **words) {
    const char *how = words[1];
    int code = count > 4 ? atoi(words[4]) : 7;
    double seconds = atof(words[3]);
    pthread_t threads[100];
    cpu = atoi(words[2]);
    if (waitpid(-1, NULL, 0) > 0)
        return 9;
    if (!strcmp(how, "thread")) {
        pthread_create(threads, NULL, honest, &seconds);
        pthread_create(threads + 1, NULL, moved, &seconds);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        return code;
    }
    if (!strcmp(how, "crowd")) {
        for (int i = 1; i < cpu; i++)
            pthread_create(threads + i, NULL, honest, &seconds);
        run(seconds);
        return code;
    }
    if (!strcmp(how, "child")) {
        if (!fork()) {
            moved(&seconds);
            return 0;
        }
        wait(NULL);
        return code;
    }
    if (!strcmp(how, "daemon")) {
        if (!fork()) {
            setsid();
            if (!fork())
                moved(&seconds);
            _exit(0);
        }
        wait(NULL);
        usleep(seconds * 1e6);
        return code;
    }
    if (!strcmp(how, "brief")) {
        double moment = 0.005;
        while (clock() < seconds * CLOCKS_PER_SEC) {
            pthread_create(threads, NULL, moved, &moment);
            pthread_join(threads[0], NULL);
        }
        return code;
    }
    if (!strcmp(how, "lowered")) {
        struct sched_param none = {0};
        if (sched_setscheduler(0, SCHED_BATCH, &none)) /* SCHED_IDLE would starve beside other tests */
            exit(1);
        while (clock() < seconds * CLOCKS_PER_SEC) /* beside others it may have to wait for as long as they run */
            ;
        return code;
    }
    if (!strcmp(how, "closed"))
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
    if (!strcmp(how, "start") || !strcmp(how, "closed"))
        move();
    run(seconds / 2);
    if (!strcmp(how, "middle"))
        move();
    run(seconds / 2);
    return code;
}
