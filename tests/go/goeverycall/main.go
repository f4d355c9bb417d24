// goeverycall: every method of etcd's gRPC API, called without a library in between, with a token or without one.
//
//	goeverycall ENDPOINT once|load [token=T] [lease=ID] [cacert=F cert=F key=F] [field=NAME] [only=METHOD,...]
//	            [pause=DURATION]
//
// field: a field of that name goes with every call.
//
// once: each method is called once; one JSON object goes to stdout: {"KV/Put": {"code": 3, "message": "..."}, ...}.
//
// load: each method is called again and again, each by a goroutine of its own, until stdin ends; then one JSON object goes to
// stdout: {"KV/Put": {"3 etcdserver: user name is empty": N, "0": M}, ...}. A line "count" on stdin is answered with the same.
//
// The requests change nothing that a test needs when they are refused; when they are not, the test has failed anyway. KV/RangeStream,
// which etcd has from 3.7 on, is called only if `only` names it.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/authpb"
	pb "go.etcd.io/etcd/api/etcdserverpb"
	epb "go.etcd.io/etcd/server/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const patience = 10 * time.Second // of one call

type marshaler interface{ Marshal() ([]byte, error) }

// Messages as they are on the wire.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte{}, data...)
	return nil
}
func (rawCodec) Name() string { return "proto" }

type method struct {
	service, name string
	request       marshaler
	enough        int // messages of a response after which a stream is let go; 0: until its end
}

func (m method) path() string  { return "/" + m.service + "/" + m.name }
func (m method) short() string { return m.service[strings.LastIndex(m.service, ".")+1:] + "/" + m.name }

func methods(lease int64) []method {
	kv, wa, le, cl, ma, au := "etcdserverpb.KV", "etcdserverpb.Watch", "etcdserverpb.Lease", "etcdserverpb.Cluster",
		"etcdserverpb.Maintenance", "etcdserverpb.Auth"
	lo, el := "v3lockpb.Lock", "v3electionpb.Election"
	key, value := []byte("/b/every"), []byte("x")
	put := &pb.PutRequest{Key: key, Value: value}
	owner := &epb.LeaderKey{Name: []byte("/b/election"), Key: []byte("/b/election/1"), Rev: 1, Lease: 1}
	return []method{
		{kv, "Range", &pb.RangeRequest{Key: key}, 0},
		{kv, "RangeStream", &pb.RangeRequest{Key: key}, 0},
		{kv, "Put", put, 0},
		{kv, "DeleteRange", &pb.DeleteRangeRequest{Key: key}, 0},
		{kv, "Txn", &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}}}, 0},
		{kv, "Compact", &pb.CompactionRequest{Revision: 1}, 0},
		{kv, "Nothing", &pb.RangeRequest{}, 0},
		{wa, "Watch", &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: key}}}, 1},
		{le, "LeaseGrant", &pb.LeaseGrantRequest{TTL: 5}, 0},
		{le, "LeaseRevoke", &pb.LeaseRevokeRequest{ID: lease}, 0},
		{le, "LeaseKeepAlive", &pb.LeaseKeepAliveRequest{ID: lease}, 1},
		{le, "LeaseTimeToLive", &pb.LeaseTimeToLiveRequest{ID: lease, Keys: true}, 0},
		{le, "LeaseLeases", &pb.LeaseLeasesRequest{}, 0},
		{cl, "MemberAdd", &pb.MemberAddRequest{PeerURLs: []string{"http://127.0.0.1:1"}, IsLearner: true}, 0},
		{cl, "MemberRemove", &pb.MemberRemoveRequest{ID: 1}, 0},
		{cl, "MemberUpdate", &pb.MemberUpdateRequest{ID: 1, PeerURLs: []string{"http://127.0.0.1:1"}}, 0},
		{cl, "MemberList", &pb.MemberListRequest{}, 0},
		{cl, "MemberPromote", &pb.MemberPromoteRequest{ID: 1}, 0},
		{ma, "Alarm", &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 1}, 0},
		{ma, "Status", &pb.StatusRequest{}, 0},
		{ma, "Defragment", &pb.DefragmentRequest{}, 0},
		{ma, "Hash", &pb.HashRequest{}, 0},
		{ma, "HashKV", &pb.HashKVRequest{}, 0},
		{ma, "Snapshot", &pb.SnapshotRequest{}, 1},
		{ma, "MoveLeader", &pb.MoveLeaderRequest{TargetID: 1}, 0},
		{ma, "Downgrade", &pb.DowngradeRequest{Action: pb.DowngradeRequest_VALIDATE, Version: "3.4.0"}, 0},
		{au, "AuthEnable", &pb.AuthEnableRequest{}, 0},
		{au, "AuthDisable", &pb.AuthDisableRequest{}, 0},
		{au, "AuthStatus", &pb.AuthStatusRequest{}, 0},
		{au, "Authenticate", &pb.AuthenticateRequest{Name: "nobody", Password: "wrong"}, 0},
		{au, "UserAdd", &pb.AuthUserAddRequest{Name: "anonymous", Options: &authpb.UserAddOptions{NoPassword: true}}, 0},
		{au, "UserGet", &pb.AuthUserGetRequest{Name: "root"}, 0},
		{au, "UserList", &pb.AuthUserListRequest{}, 0},
		{au, "UserDelete", &pb.AuthUserDeleteRequest{Name: "anonymous"}, 0},
		{au, "UserChangePassword", &pb.AuthUserChangePasswordRequest{Name: "anonymous", Password: "x"}, 0},
		{au, "UserGrantRole", &pb.AuthUserGrantRoleRequest{User: "anonymous", Role: "root"}, 0},
		{au, "UserRevokeRole", &pb.AuthUserRevokeRoleRequest{Name: "anonymous", Role: "root"}, 0},
		{au, "RoleAdd", &pb.AuthRoleAddRequest{Name: "anonymous"}, 0},
		{au, "RoleGet", &pb.AuthRoleGetRequest{Role: "root"}, 0},
		{au, "RoleList", &pb.AuthRoleListRequest{}, 0},
		{au, "RoleDelete", &pb.AuthRoleDeleteRequest{Role: "anonymous"}, 0},
		{au, "RoleGrantPermission", &pb.AuthRoleGrantPermissionRequest{Name: "anonymous", Perm: &authpb.Permission{Key: key}}, 0},
		{au, "RoleRevokePermission", &pb.AuthRoleRevokePermissionRequest{Role: "anonymous", Key: key}, 0},
		{lo, "Lock", &lpb.LockRequest{Name: []byte("/b/lock"), Lease: lease}, 0},
		{lo, "Unlock", &lpb.UnlockRequest{Key: []byte("/b/lock/1")}, 0},
		{el, "Campaign", &epb.CampaignRequest{Name: []byte("/b/election"), Lease: lease, Value: value}, 0},
		{el, "Proclaim", &epb.ProclaimRequest{Leader: owner, Value: value}, 0},
		{el, "Leader", &epb.LeaderRequest{Name: []byte("/b/election")}, 0},
		{el, "Observe", &epb.LeaderRequest{Name: []byte("/b/election")}, 1},
		{el, "Resign", &epb.ResignRequest{Leader: owner}, 0},
	}
}

// A watch that is refused is a response with `canceled`, not a status.
func refusedWatch(m method, response []byte) string {
	var watch pb.WatchResponse
	if m.name == "Watch" && watch.Unmarshal(response) == nil && watch.Canceled {
		return watch.CancelReason
	}
	return ""
}

func call(conn *grpc.ClientConn, m method, fields []string) (code int, message string) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), fields...), patience)
	defer cancel()
	request, err := m.request.Marshal()
	if err != nil {
		return -1, err.Error()
	}
	// As streams all of them: a unary call is one whose both sides are closed after one message.
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, m.path())
	if err == nil {
		err = stream.SendMsg(request)
	}
	if err == nil && m.name != "Watch" && m.name != "LeaseKeepAlive" { // of these the client's side is a stream
		err = stream.CloseSend()
	}
	for n := 0; err == nil || err == io.EOF; n++ {
		var response []byte
		if err = stream.RecvMsg(&response); err == io.EOF && n == 0 {
			return -1, "ended without a message"
		} else if err == io.EOF {
			return 0, ""
		}
		if err == nil {
			if why := refusedWatch(m, response); why != "" {
				return 3, why
			}
			if m.enough > 0 && n+1 >= m.enough {
				return 0, ""
			}
		}
	}
	state, _ := status.FromError(err)
	return int(state.Code()), state.Message()
}

type outcome struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func once(conn *grpc.ClientConn, all []method, fields []string) {
	found := map[string]outcome{}
	for _, m := range all {
		code, message := call(conn, m, fields)
		found[m.short()] = outcome{code, message}
	}
	must(json.NewEncoder(os.Stdout).Encode(found))
}

func load(conn *grpc.ClientConn, all []method, fields []string, pause time.Duration) {
	var mu sync.Mutex // guards counts
	counts := map[string]map[string]int{}
	over := make(chan struct{})
	var wait sync.WaitGroup
	for _, m := range all {
		counts[m.short()] = map[string]int{}
		wait.Add(1)
		go func(m method) {
			defer wait.Done()
			for {
				select {
				case <-over:
					return
				case <-time.After(pause):
				}
				code, message := call(conn, m, fields)
				mu.Lock()
				counts[m.short()][strings.TrimSpace(strconv.Itoa(code)+" "+message)]++
				mu.Unlock()
			}
		}(m)
	}
	print := func() {
		mu.Lock()
		defer mu.Unlock()
		must(json.NewEncoder(os.Stdout).Encode(counts))
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		print()
	}
	close(over)
	wait.Wait()
	print()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "goeverycall:", err)
		os.Exit(1)
	}
}

func credentialsOf(options map[string]string) credentials.TransportCredentials {
	if options["cacert"] == "" {
		return insecure.NewCredentials()
	}
	text, err := os.ReadFile(options["cacert"])
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	config := &tls.Config{RootCAs: pool}
	if options["cert"] != "" {
		pair, err := tls.LoadX509KeyPair(options["cert"], options["key"])
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config)
}

func chosen(all []method, only string) []method {
	var some []method
	for _, m := range all {
		if only == "" && m.name != "RangeStream" || strings.Contains(","+only+",", ","+m.short()+",") {
			some = append(some, m)
		}
	}
	return some
}

func main() {
	if len(os.Args) < 3 {
		must(fmt.Errorf("usage: goeverycall ENDPOINT once|load [NAME=VALUE ...]"))
	}
	options := map[string]string{"lease": "1", "pause": "20ms"}
	for _, word := range os.Args[3:] {
		name, value, _ := strings.Cut(word, "=")
		options[name] = value
	}
	lease, err := strconv.ParseInt(options["lease"], 10, 64)
	must(err)
	pause, err := time.ParseDuration(options["pause"])
	must(err)
	conn, err := grpc.Dial(os.Args[1], grpc.WithTransportCredentials(credentialsOf(options)),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	must(err)
	all := chosen(methods(lease), options["only"])
	var fields []string
	if options["token"] != "" {
		fields = append(fields, "token", options["token"])
	}
	if options["field"] != "" {
		fields = append(fields, options["field"], "goeverycall")
	}
	if os.Args[2] == "once" {
		once(conn, all, fields)
	} else {
		load(conn, all, fields, pause)
	}
}
