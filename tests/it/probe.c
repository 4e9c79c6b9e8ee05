/* The commands of the integration tests: one program, its first argument says what to do or try.
 * Attempts print a line each, "NAME ok" or "NAME errno=N"; nothing here judges the outcome. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void say(const char *what, long result) {
    if (result < 0) printf("%s errno=%d\n", what, errno);
    else printf("%s ok\n", what);
    fflush(stdout);
}

static int is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* ---- what a command finds ---------------------------------------------------------------- */

static int arguments(int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        for (const char *p = argv[i]; *p; p++) printf("%02x", (unsigned char)*p);
        putchar('\n');
    }
    return 0;
}

static int descriptors(void) {
    for (int fd = 0; fd < 70000; fd++)
        if (fcntl(fd, F_GETFD) >= 0) printf("%d\n", fd);
    return 0;
}

static int state(void) {
    char cwd[4096];
    printf("umask %03o\n", umask(0));
    printf("cwd %s\n", getcwd(cwd, sizeof cwd) ? cwd : "?");
    printf("ids %d %d %d %d\n", getuid(), geteuid(), getgid(), getegid());
    say("tty", open("/dev/tty", O_RDWR));
    printf("terminals %d%d%d\n", isatty(0), isatty(1), isatty(2));
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int s = 1; s <= 64; s++) {
        struct sigaction act;
        if (sigismember(&mask, s) == 1) printf("blocked %d\n", s);
        if (sigaction(s, NULL, &act) == 0 && act.sa_handler != SIG_DFL) printf("disposition %d\n", s);
    }
    const struct { const char *name; int resource; } all[] = {
        {"core", RLIMIT_CORE}, {"cpu", RLIMIT_CPU}, {"as", RLIMIT_AS}, {"fsize", RLIMIT_FSIZE},
        {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}, {"memlock", RLIMIT_MEMLOCK},
        {"msgqueue", RLIMIT_MSGQUEUE}, {"sigpending", RLIMIT_SIGPENDING}, {"rtprio", RLIMIT_RTPRIO},
        {"nice", RLIMIT_NICE},
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        struct rlimit value;
        getrlimit(all[i].resource, &value);
        printf("limit %s %llu %llu\n", all[i].name, (unsigned long long)value.rlim_cur,
               (unsigned long long)value.rlim_max);
    }
    return 0;
}

/* ---- attempts ---------------------------------------------------------------------------- */

static long copy(const char *from, const char *to) {
    static char buffer[1 << 16];
    int in = open(from, O_RDONLY), out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (out < 0) return -1;
    for (ssize_t n; (n = read(in, buffer, sizeof buffer)) > 0;)
        if (write(out, buffer, (size_t)n) != n) return -1;
    close(in);
    return close(out);
}

/* Executes in a child; its standard output is ours. */
static void run(const char *what, char *const argv[]) {
    int said[2], failed = 0, status;
    if (pipe2(said, O_CLOEXEC)) exit(99);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[0], argv);
        failed = errno;
        if (write(said[1], &failed, sizeof failed) < 0) _exit(98);
        _exit(97);
    }
    close(said[1]);
    if (read(said[0], &failed, sizeof failed) > 0) {
        errno = failed;
        say(what, -1);
    }
    close(said[0]);
    waitpid(pid, &status, 0);
    printf("%s status %d\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    fflush(stdout);
}

static void reading(const char *path) {
    char byte[1];
    int fd = open(path, O_RDONLY);
    say("read", fd < 0 ? -1 : read(fd, byte, 1));
    if (fd >= 0) close(fd);
}

static void writing(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    say("write", fd < 0 ? -1 : write(fd, "x", 1));
    if (fd >= 0) close(fd);
}

/* NAME OPERAND OPERAND: always two operands, so that a line of attempts stays plain. */
static int attempts(int count, char **word) {
    for (int i = 0; i + 2 < count; i += 3) {
        const char *what = word[i], *a = word[i + 1], *b = word[i + 2];
        if (is(what, "read")) reading(a);
        else if (is(what, "write")) writing(a);
        else if (is(what, "truncate")) say(what, truncate(a, 0));
        else if (is(what, "list")) say(what, open(a, O_RDONLY | O_DIRECTORY));
        else if (is(what, "chdir")) say(what, chdir(a));
        else if (is(what, "mkdir")) say(what, mkdir(a, 0700));
        else if (is(what, "rmdir")) say(what, rmdir(a));
        else if (is(what, "unlink")) say(what, unlink(a));
        else if (is(what, "rename")) say(what, rename(a, b));
        else if (is(what, "link")) say(what, link(a, b));
        else if (is(what, "symlink")) say(what, symlink(a, b));
        else if (is(what, "mkfifo")) say(what, mkfifo(a, 0600));
        else if (is(what, "chmod")) say(what, chmod(a, (mode_t)strtol(b, NULL, 8)));
        else if (is(what, "fchmod")) say(what, fchmod(open(a, O_RDWR), (mode_t)strtol(b, NULL, 8)));
        else if (is(what, "stat")) { struct stat st; long r = stat(a, &st); say(what, r);
            if (r == 0) printf("mode %o\n", st.st_mode & 07777); }
        else if (is(what, "kill")) say(what, kill(is(a, "parent") ? getppid() : atoi(a), atoi(b)));
        else if (is(what, "exec")) { char *argv[] = {(char *)a, NULL}; run(what, argv); }
        else if (is(what, "loader")) { char *argv[] = {(char *)a, (char *)b, NULL}; run(what, argv); }
        else if (is(what, "copy")) say(what, copy(a, b));
        else if (is(what, "memfd")) say(what, syscall(SYS_memfd_create, a, 0));
        else if (is(what, "map")) { int fd = open(a, O_RDONLY);
            void *at = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
            say(what, at == MAP_FAILED ? -1 : 0); }
        else { printf("unknown attempt %s\n", what); return 2; }
    }
    return 0;
}

/* Many starts by a path in shared memory that another process flips between two programs all the time. Prints
 * how often the first one ran and how often nothing did; the second one would say so itself. */
static int race_exec(const char *own, const char *other, long count) {
    char *path = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long ran = 0, refused = 0;
    if (path == MAP_FAILED) return 1;
    strcpy(path, own);
    pid_t flipper = fork();
    if (flipper == 0)
        for (;;) { strcpy(path, other); strcpy(path, own); }
    for (long i = 0; i < count; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            char *argv[] = {path, "exit", "7", NULL};
            execv(path, argv);
            _exit(8);
        }
        waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 7) ran++;
        else refused++;
    }
    kill(flipper, SIGKILL);
    printf("%ld %ld\n", ran, refused);
    return 0;
}

/* ---- processes --------------------------------------------------------------------------- */

/* Daemons with a session and no parent of their own, deaf to polite signals. Each says that it is
 * there through a pipe, so that all run before this returns. */
static void daemons(int count, int hold) {
    int up[2];
    if (pipe(up)) exit(99);
    for (int i = 0; i < count; i++) {
        pid_t middle = fork();
        if (middle == 0) {
            setsid();
            if (fork() == 0) {
                setsid();
                for (int s = 1; s <= 64; s++) signal(s, SIG_IGN);
                if (!hold) { close(0); close(1); close(2); }
                if (write(up[1], "x", 1) != 1) _exit(1);
                close(up[0]);
                close(up[1]);
                for (;;) pause();
            }
            _exit(0);
        }
        waitpid(middle, NULL, 0);
    }
    close(up[1]);
    char byte;
    int seen = 0;
    while (seen < count && read(up[0], &byte, 1) == 1) seen++;
    printf("%d up\n", seen);
    fflush(stdout);
}

/* Every process lives only until it has made the next one: a list of processes is always late. */
static void hoppers(int count) {
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            setsid();
            for (long hops = 0; hops < 5000000; hops++)
                if (fork() > 0) _exit(0);
            _exit(0);
        }
}

/* Makes the supervisor's process group an orphaned one with a stopped member, if it can get in there:
 * the kernel itself then sends SIGHUP to all of it. */
static int hang_up(void) {
    pid_t group = getpgrp(), supervisor = getppid();
    struct timespec pause_for = {0, 10000000};
    signal(SIGHUP, SIG_IGN);
    if (fork() == 0) { raise(SIGSTOP); _exit(0); }
    int stopped;
    waitpid(-1, &stopped, WUNTRACED);
    if (fork() == 0) {
        setpgid(0, 0);
        pid_t link = fork();
        if (link == 0) {
            setpgid(0, group);
            if (supervisor != group) setpgid(0, supervisor);
            _exit(0);
        }
        waitpid(link, NULL, 0);
        for (;;) pause();
    }
    for (int i = 0; i < 30; i++) nanosleep(&pause_for, NULL);
    puts(getppid() == supervisor ? "supervised" : "alone");
    return 0;
}

/* A scratch directory that is hard to remove: permissions gone, guessed names taken, every inode used. */
static int clutter(void) {
    char name[32];
    long made = 0;
    if (chdir(getenv("TMPDIR"))) { say("chdir", -1); return 1; }
    mkdir("a", 0700); mkdir("a/b", 0700); mkdir("a/b/c", 0700); mkdir("a/b/c/d", 0);
    for (int i = 1; i < 9; i++) {
        snprintf(name, sizeof name, ".up-%d", i);
        mkdir(name, 0700);
        if (chdir(name)) break;
        mkdir("x", 0700); mkdir("x/y", 0700); mkdir("x/y/z", 0);
        if (chdir("..")) break;
    }
    int top = open(".", O_RDONLY | O_DIRECTORY), nested = open("a/b", O_RDONLY | O_DIRECTORY);
    for (;; made++) {
        snprintf(name, sizeof name, "a/b/c/%ld", made);
        int fd = open(name, O_CREAT | O_WRONLY, 0);
        if (fd < 0) break;
        close(fd);
    }
    fchmod(nested, 0);
    fchmod(top, 0);
    puts(made > 10000 ? "cluttered" : "no room");
    return 0;
}

/* ---- bombs ------------------------------------------------------------------------------- */

/* Done with one resource. With "hold" it stays as it is, and a second process says so by being there. */
static int used_up(const char *what, long count, const char *then) {
    printf("%s %ld errno=%d\n", what, count, errno);
    fflush(stdout);
    if (is(then, "hold")) { fork(); for (;;) pause(); }
    return 0;
}

static int bomb(const char *what, const char *then) {
    long count = 0;
    /* At the limit it goes on trying, but leaves the processors to whoever else tests here. */
    if (is(what, "fork")) for (;;) if (fork() < 0) usleep(50000);
    if (is(what, "memory") || is(what, "shared")) {
        int flags = MAP_ANONYMOUS | (is(what, "shared") ? MAP_SHARED : MAP_PRIVATE);
        for (;; count++) {
            char *block = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, flags, -1, 0);
            if (block == MAP_FAILED) return used_up(what, count, then);
            memset(block, 1, 1 << 20);
        }
    }
    if (is(what, "many")) {
        /* Each within its own limit, all together far beyond 256 MiB. */
        for (int i = 0; i < 8; i++)
            if (fork() == 0) {
                char *block = malloc(48 << 20);
                if (block) memset(block, 1, 48 << 20);
                for (;;) pause();
            }
        while (wait(NULL) > 0) {}
        return 0;
    }
    if (is(what, "scratch")) {
        static char block[1 << 16];
        char name[32];
        if (chdir(getenv("TMPDIR"))) { say("chdir", -1); return 1; }
        for (long files = 0;; files++) {
            snprintf(name, sizeof name, "%ld", files);
            int fd = open(name, O_WRONLY | O_CREAT, 0600);
            if (fd < 0) return used_up(what, count, then);
            for (int i = 0; i < 16; i++) {
                ssize_t n = write(fd, block, sizeof block);
                if (n < 0) return used_up(what, count, then);
                count += n;
            }
            close(fd);
        }
    }
    if (is(what, "flood")) {
        static char block[1 << 16];
        int stream = fork() == 0 ? 2 : 1;
        memset(block, 'x', sizeof block);
        while (write(stream, block, sizeof block) > 0) {}
        return 3;
    }
    if (is(what, "files")) {
        while (open("/dev/null", O_RDONLY) >= 0) count++;
        return used_up(what, count, then);
    }
    if (is(what, "timers")) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        timer_t timer;
        while (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) count++;
        return used_up(what, count, then);
    }
    fprintf(stderr, "probe: what bomb is %s?\n", what);
    return 2;
}

/* Leaves a file without a name in scratch, held by two sockets that hold each other. */
static int circle(void) {
    static char block[1 << 20];
    int file = open(getenv("HOME"), O_TMPFILE | O_RDWR, 0600), ends[2];
    if (file < 0 || write(file, block, sizeof block) < 0) { say("file", -1); return 1; }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) { say("socketpair", -1); return 1; }
    for (int i = 0; i < 2; i++) {
        union { char bytes[CMSG_SPACE(2 * sizeof(int))]; struct cmsghdr align; } control = {{0}};
        struct iovec one = {"x", 1};
        struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        int both[2] = {ends[i], file};
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof both);
        memcpy(CMSG_DATA(head), both, sizeof both);
        if (sendmsg(ends[i], &message, 0) < 0) { say("sendmsg", -1); return 1; }
    }
    say("circle", 0);
    return 0;
}

/* What scratch holds beside this run's directory. */
static int beside(void) {
    struct statvfs space;
    if (statvfs(getenv("HOME"), &space) < 0) { say("statvfs", -1); return 1; }
    printf("%lu blocks %lu files\n", (unsigned long)(space.f_blocks - space.f_bfree),
           (unsigned long)(space.f_files - space.f_ffree));
    return 0;
}

/* Asked to end, it says so and does. */
static void goodbye(int signal) {
    (void)signal;
    if (write(1, "goodbye\n", 8) < 0) _exit(9);
    _exit(0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
    long number = strtol(arg, NULL, 10);
    if (is(what, "argv")) return arguments(argc, argv);
    if (is(what, "env")) { for (char **e = environ; *e; e++) puts(*e); return 0; }
    if (is(what, "fds")) return descriptors();
    if (is(what, "state")) return state();
    if (is(what, "try")) return attempts(argc - 2, argv + 2);
    if (is(what, "exit")) return (int)number;
    if (is(what, "signal")) { raise((int)number); return 0; }
    if (is(what, "say")) { puts(arg); return 0; }
    if (is(what, "both")) { fputs("out", stdout); fputs("err", stderr); return 0; }
    if (is(what, "lines")) { for (long i = 1; i <= number; i++) printf("line %06ld\n", i); return 0; }
    if (is(what, "raw")) { fwrite("a\xff\xfe" "b\n", 1, 5, stdout); return 0; }
    if (is(what, "forever")) { for (;;) if (puts("again") < 0 || fflush(stdout)) return 3; }
    if (is(what, "stdin")) {
        long total = 0;
        for (int c; (c = getchar()) != EOF; total++) putchar(c);
        printf("[%ld bytes]\n", total);
        return 0;
    }
    if (is(what, "pause")) { say("ready", 0); for (;;) pause(); }
    if (is(what, "polite")) {
        signal(SIGTERM, goodbye);
        say("ready", 0);
        for (;;) pause();
    }
    if (is(what, "deaf")) { signal(SIGTERM, SIG_IGN); say("ready", 0); for (;;) pause(); }
    if (is(what, "daemons")) { daemons((int)number, 0); return 0; }
    if (is(what, "daemons-hang")) { daemons((int)number, 0); for (;;) pause(); }
    if (is(what, "daemons-hold")) { daemons((int)number, 1); return 0; }
    if (is(what, "hoppers")) { hoppers((int)number); say("hopping", 0); return 0; }
    if (is(what, "hoppers-hang")) { hoppers((int)number); say("hopping", 0); for (;;) pause(); }
    if (is(what, "hang-up")) return hang_up();
    if (is(what, "race-exec")) return race_exec(arg, argv[3], atol(argv[4]));
    if (is(what, "clutter")) return clutter();
    if (is(what, "circle")) return circle();
    if (is(what, "beside")) return beside();
    if (is(what, "metadata")) {
        int fd = open(arg, O_RDONLY);
        if (fd < 0) { say("open", -1); return 1; }
        say("fchmod", fchmod(fd, 0666));
        say("futimens", futimens(fd, NULL));
        return 0;
    }
    if (is(what, "memory")) {
        for (long mib = 0;; mib++) {
            char *block = malloc(1 << 20);
            if (!block) { printf("memory %ld MiB errno=%d\n", mib, errno); return 0; }
            memset(block, 1, 1 << 20);
        }
    }
    if (is(what, "fill")) {
        static char block[1 << 16];
        int fd = open(arg, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0) { say("open", -1); return 1; }
        if (argc > 3) signal(SIGXFSZ, SIG_IGN);
        long total = 0;
        for (ssize_t n; (n = write(fd, block, sizeof block)) > 0;) total += n;
        printf("filled %ld errno=%d\n", total, errno);
        return 0;
    }
    if (is(what, "files")) {
        long count = 0;
        while (open("/dev/null", O_RDONLY) >= 0) count++;
        printf("files %ld errno=%d\n", count, errno);
        return 0;
    }
    if (is(what, "forks")) {
        for (long count = 0; count < 20000; count++) {
            pid_t pid = fork();
            if (pid < 0) { printf("forks %ld errno=%d\n", count, errno); return 0; }
            if (pid == 0) for (;;) pause();
        }
        printf("forks unbounded\n");
        return 0;
    }
    if (is(what, "bomb")) return bomb(arg, argc > 3 ? argv[3] : "");
    if (is(what, "spin")) for (volatile long i = 0;; i++) {}
    if (is(what, "raise-limits")) {
        struct rlimit value;
        for (int r = 0; r < 16; r++) {
            getrlimit(r, &value);
            if (value.rlim_max == RLIM_INFINITY) continue;
            value.rlim_max++;
            say("raise", setrlimit(r, &value));
        }
        return 0;
    }
    fprintf(stderr, "probe: what is %s?\n", what);
    return 2;
}
