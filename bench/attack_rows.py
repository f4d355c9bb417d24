"""attack_rows: the rows of bench/attacks, and what each must bring about."""
ATTACKER = "10.77.0.99"
LOOPBACK = "127.0.0.0/8"  # one client
BACKFILLS = 'belfry_upstream_fallbacks_total{reason="backfill"}'


class Expected:
    """What an attack must bring about, beside that healthy clients notice nothing."""

    def __init__(self, pool=None, told=None, why="", attack=None, on="plain", during=None, tokens=None, healthy=True, over_tls=False, received=0, never=(), after_s=0, client=ATTACKER, to="clients", more=(), options=(), files=None, fresh=False,
                 beside=(), rises=None, within=None):
        assert (pool and told) or why, "an attack with neither a pool nor a reason says why"
        self.pool = pool          # a regular expression: /readyz?verbose must name it, and `client` as the one that holds most of it
        self.told = told          # a regular expression: what the attacker must be told
        self.why = why            # why no pool, or no words, can be expected
        self.attack = attack      # of belfry-attack; None: it has the row's name
        self.on = on              # the servers: "plain", or with "auth" on
        self.during = during      # a method of theirs that runs meanwhile: the attack goes on until it returns
        self.tokens = tokens      # a file of theirs: what the attacker shows
        self.healthy = healthy    # False: nobody can be served meanwhile, so `during` alone says what is wrong
        self.received = received  # bytes that the attacker must have been sent: it was served
        self.over_tls = over_tls  # healthy clients of etcd's API use the listener with TLS
        self.never = never        # what the attacker must not be told: parts of texts
        self.after_s = after_s    # an attack that is shorter brings it about only sometimes
        self.client = client
        self.to = to              # the address that it is for: of "clients", "admin", "tls"
        self.more = more          # options of belfry-attack
        self.options = options    # of belfryd, for this attack alone
        self.files = files        # descriptors that belfryd may have
        self.fresh = fresh        # belfryd is restarted: it has not served such attacks before
        self.beside = beside      # other attacks that go on meanwhile, from addresses of their own
        self.rises = rises        # a counter of /metrics, and by how much it must rise
        self.within = within or {}  # ms that a p99 may have, whatever it is beside the sink: work that is done in turns


CLOSED = "closed"  # without a word, which a balancer may keep for itself
MEMORY = "hold as much memory as they may"
NOTHING = "nothing"  # in the place of an attack of belfry-attack: `during` is all
UPSTREAM = "the tier ends the connection, and says why nothing is new"
SERVED = "it is served like other clients: it takes turns on the CPU, and holds nothing"
FAST = ("--connects", "4000", "--connections", "4000")
TURNS = "its watches wait until it is their client's turn"
SLOW = "what it holds is small, and its time is over only later"
AUTH = {"on": "auth", "tokens": "mallory", "never": ("a secret",)}
# Every attack of `belfry-attack --list` has a row: a new one without a row fails.
EXPECTED = {
    "heads": Expected(told="room was needed for call_bytes", why="a connection that fills the pool is ended in the same turn: it holds nothing then"),
    "halves": Expected("requests", "room was needed for requests"),
    "streams": Expected("watch_bytes", "room was needed for watch_bytes"),
    "upstream": Expected("calls|call_bytes", "as many calls under way as it may|memory limit reached"),
    "ranges": Expected("call_bytes", "memory limit reached; try again", more=("--rate", "256KiB")),
    "gzip": Expected(told="message after decompression larger than max", why="each message is refused before it is held"),
    "watches": Expected("watch_bytes", MEMORY),
    "ids": Expected(told="duplicate watch ID", why="it cancels watches, so it fills the pool only in some runs"),
    "tokens": Expected("watch_bytes", MEMORY, more=("--rate", "4MiB")),
    "garbage": Expected(told="grpc-status", why="each call is refused, or served"),
    "selectors": Expected("watch_bytes|list_bytes", "message: belfry: (memory limit reached|too many watches begin)"),
    "long-keys": Expected("watch_bytes", MEMORY),
    "prefixes": Expected("watch_bytes", "comment: the streams of this client hold as much memory as they may"),
    "dialects": Expected("watch_bytes", MEMORY),
    "list-selectors": Expected("list_bytes", "HTTP 429"),
    "rapid-reset": Expected(told="ENHANCE_YOUR_CALM", why="a flood is ended, and holds nothing"),
    "continuation": Expected(told="a flood of frames", why="a flood is ended, and holds nothing"),
    "ping": Expected(why=SERVED),  # one that reads its answers; what it does not read is bounded, and ends it
    "settings": Expected(told="ENHANCE_YOUR_CALM", why="a flood is ended, and holds nothing"),
    "window-update": Expected(why=SERVED),
    "empty-data": Expected(why=SERVED),
    "hpack-bomb": Expected(told="HTTP 431", why="each head is refused before it is held"),
    "trailers": Expected(why=SERVED),
    "slow-head": Expected(told="a request's head was begun and not completed in time", why=SLOW, after_s=20),
    "slow-body": Expected(told="the request was not complete in time", why=SLOW, after_s=20),
    "slow-read": Expected(why=SLOW),
    "zero-window": Expected(told="RST_STREAM INTERNAL_ERROR", why=SLOW, after_s=20),
    "lists": Expected(why=SLOW),
    "slow-head-http1": Expected(told=CLOSED, why=SLOW, after_s=20),
    "chunk-extensions": Expected(told="HTTP 405", why="a body without a use is read and dropped"),
    "trailers-http1": Expected(told="HTTP 405", why="a body without a use is read and dropped"),
    "connections": Expected("connections", CLOSED, options=("--max-connections", "2000"), more=FAST),
    "newcomers": Expected(why=SERVED),
    "admin-pages": Expected("connections", "this address serves few connections", to="admin"),
    "admin-idle": Expected("connections", CLOSED, to="admin", files=2048, more=FAST),
    "admin-metrics": Expected(why="eight connections are few, and each is served in turn", to="admin"),
    "smuggling": Expected(why="each request is refused before anything is held", attack=NOTHING, during="smuggle"),
    "web-page": Expected(told="HTTP 403", why="it is refused before anything is held"),
    # 127.0.0.0/8 is one client: its newcomers are refused, whichever of its addresses they have.
    "many-addresses": Expected("connections", CLOSED, client=LOOPBACK, options=("--max-connections", "500"), more=FAST),
    "backfills": Expected(why=TURNS, fresh=True, rises=(BACKFILLS, 5)),
    "unread-backfills": Expected(why=TURNS, fresh=True, rises=(BACKFILLS, 5), within={"history": 3000}),
    "returners": Expected("watch_bytes", "room was needed for watch_bytes", beside=("crowd",)),
    "crowd": Expected(told="message: belfry: memory limit reached", why="each of its addresses holds as much as the others"),
    "half-records": Expected("memory", CLOSED, to="tls", more=FAST),
    "tls-hellos": Expected(why="each is served, and leaves: 300 per second", received=70000, to="tls", over_tls=True, more=("--connects", "300")),
    # No client attacks, but what belfryd follows: etcd, or a tier above.
    "hostile-etcd": Expected(why=UPSTREAM, attack=NOTHING, on="hostile-etcd", during="be_hostile", healthy=False),
    "hostile-parent": Expected(why=UPSTREAM, attack=NOTHING, on="hostile-parent", during="be_hostile", healthy=False),
    # With auth on. Mallory has a right to /k/, at times to /race/, and none to /secret/.
    "differing-reads": Expected(why="its answers are compared with etcd's", attack=NOTHING, on="auth", during="differ"),
    "rights-ranges": Expected("watch_bytes", MEMORY, **AUTH, attack="long-keys"),
    "invented-tokens": Expected("watch_bytes", MEMORY, **AUTH, attack="tokens", more=("--rate", "4MiB")),
    "minted": Expected(why="every user may watch what it asks for", **{**AUTH, "tokens": "minted"}),
    "lease-ttl": Expected(told="grpc-status 7", why="it is refused before anything is held", **AUTH),
    "lease-revoke": Expected(told="grpc-status 7", why="it is refused before anything is held", **AUTH),
    "peek": Expected(told="etcdserver: permission denied", why="it is refused before anything is held", **AUTH),
    "revocations": Expected(told="etcdserver: permission denied", why="it holds little", **AUTH, attack="peek", during="revoke_again_and_again"),
    "auth-switched": Expected(why="its tokens end with the auth that gave them", **{**AUTH, "never": ()}, attack="peek", during="switch_auth", healthy=False),
}
