/* tests/support/numbers_json.h: what /debug/numbers says in serve/admin/numbers_document_test.c, for those who write it
 * and those who read it. Made by numbers_document_test --print. In four parts, because compilers need not take a
 * literal of more than 4095 bytes. */
#ifndef BELFRY_TESTS_NUMBERS_JSON_H
#define BELFRY_TESTS_NUMBERS_JSON_H

#include <stdio.h>

/* clang-format off */
#define NUMBERS_JSON_TIER \
    "{\"name\":\"edge-7\",\"version\":\"0.3.0\",\"up_ms\":90061000,\"draining\":false," \
    "\"advertise\":\"https://edge-7:23790\",\"scope\":[\"/services/\"],\"upstream\":{\"answered\":true," \
    "\"standing\":\"ready\",\"trouble\":\"\",\"reason\":\"\",\"state\":\"live\",\"endpoint\":\"https://etcd-2:2379\"," \
    "\"version\":\"3.5.16\",\"disk_why\":\"\",\"endpoints\":[{\"url\":\"https://etcd-1:2379\"," \
    "\"barred\":true},{\"url\":\"https://etcd-2:2379\",\"barred\":false}],\"revision\":48120733," \
    "\"committed\":48120732,\"upstream_revision\":48120735,\"silent_ms\":4,\"past\":0," \
    "\"cluster_id\":18446744073709551615,\"member_id\":8,\"raft_term\":2,\"disk_trouble\":false," \
    "\"connects\":5,\"losses\":2,\"backfills\":1,\"backfills_done\":7,\"backfill_revisions\":0," \
    "\"keys_listed\":0,\"read_points\":0,\"read_points_failed\":0,\"follower\":{\"revisions\":100," \
    "\"events\":101,\"overlaps\":102,\"listings\":103,\"relists_compacted\":104,\"relists_rewritten\":105," \
    "\"relists_unproven\":115,\"relists_damaged\":116,\"breaches\":106,\"judgements\":107,\"replays\":108," \
    "\"windows\":109,\"pages\":110,\"pages_repeated\":111,\"gaps\":112,\"stale\":113}}," \
    "\"replica\":{\"state_rows\":200,\"history_rows\":201,\"history_bytes\":202,\"used_bytes\":203," \
    "\"map_bytes\":204,\"commits\":205,\"trimmed\":206,\"io_errors\":207,\"damages\":208," \
    "\"history_oldest\":44000000,\"history_newest\":48120732,\"reads\":0,\"reads_shared\":0," \
    "\"reads_shelved\":0,\"shelf_bytes\":0},\"log\":{\"oldest\":47900000,\"newest\":48120733," \
    "\"bytes\":268435456},\"listeners\":{\"accepted\":300,\"refused\":301," \
    "\"admin_connections\":302,\"admin_refused\":303}," \
    "\"listener_certificate_s\":7689600,\"clock_ms\":1763373600000,\"descriptors\":1048576," \
    "\"disk_free_bytes\":50000000000,\"memory_max\":1073741824,\"pools\":{\"connections\":{\"used\":1220," \
    "\"limit\":2220,\"refused\":1222,\"ended\":1223,\"largest\":1224,\"client\":\"10.0.0.9\"," \
    "\"admin_trouble\":\"connections: clients refused or ended in the last minute at the admin address; " \
    "50 % of 100 in use; 10.0.0.8 holds most, 40 %\"}," \
    "\"memory\":{\"used\":1230,\"limit\":2230,\"refused\":1232,\"ended\":1233,\"largest\":1234," \
    "\"client\":\"10.0.0.9\"},\"requests\":{\"used\":1240,\"limit\":2240,\"refused\":1242,\"ended\":1243," \
    "\"largest\":1244,\"client\":\"10.0.0.9\"},\"watchers\":{\"used\":1250,\"limit\":2250,\"refused\":1252," \
    "\"ended\":1253,\"largest\":1254,\"client\":\"10.0.0.9\"},\"calls\":{\"used\":1260,\"limit\":2260," \
    "\"refused\":1262,\"ended\":1263,\"largest\":1264,\"client\":\"10.0.0.9\",\"trouble\":\"calls: clients " \
    "refused or ended in the last minute in 1 of 2 workers; 55 % of 2260 in use; 10.0.0.9 holds most, 55 " \
    "%\"},\"call_bytes\":{\"used\":1270,\"limit\":2270,\"refused\":1272,\"ended\":1273,\"largest\":1274," \
    "\"client\":\"10.0.0.9\"},\"lists\":{\"used\":1280,\"limit\":2280,\"refused\":1282,\"ended\":1283," \
    "\"largest\":1284,\"client\":\"10.0.0.9\"},\"watch_bytes\":{\"used\":1290,\"limit\":2290,\"refused\":1292," \
    "\"ended\":1293,\"largest\":1294," \
    "\"client\":\"10.0.0.9\"},\"list_bytes\":{\"used\":1300,\"limit\":2300,\"refused\":1302,\"ended\":1303," \
    "\"largest\":1304," \
    "\"client\":\"10.0.0.9\"}},"

#define NUMBERS_JSON_CHECKS \
    "\"summary\":{\"warnings\":[],\"checks\":[{\"name\":\"upstream\",\"ok\":true},{\"name\":\"lag\",\"ok\":false," \
    "\"why\":\"0.004 s behind (limit 0 s)\",\"hint\":\"is the link to upstream slow, or the machine busy?\"}," \
    "{\"name\":\"replica\",\"ok\":true},{\"name\":\"workers\",\"ok\":false," \
    "\"why\":\"1 of 2 did not answer\",\"hint\":\"is the machine out of processor time? Otherwise restart the tier, " \
    "and report it with its log\"},{\"name\":\"rights\",\"ok\":true},{\"name\":\"drain\"," \
    "\"ok\":true}],\"ready\":false,\"verdict\":\"not ready\",\"why\":\"lag: 0.004 s behind (limit 0 s)\"," \
    "\"hint\":\"is the link to upstream slow, or the machine busy?\","

#define NUMBERS_JSON_SUMMARY \
    "\"workers\":2,\"workers_answering\":1," \
    "\"watchers\":{\"grpc\":{\"synced\":1000,\"catching_up\":3016,\"parked\":1009},\"kube\":{\"synced\":0," \
    "\"catching_up\":0,\"parked\":0},\"sse\":{\"synced\":0,\"catching_up\":0,\"parked\":0}}," \
    "\"rejected\":{\"descriptors\":301,\"admin\":303,\"admin_cross_site\":304," \
    "\"permission\":1117,\"watch_share\":1119,\"watch_scope\":1120,\"watch_id\":1121," \
    "\"unfinished_watch\":1113,\"handshake\":0," \
    "\"proxy_head\":1214,\"flood\":1209,\"stream_memory\":0,\"connection_memory\":0,\"unfinished_largest\":0," \
    "\"unfinished_greeting\":0,\"unfinished_handshake\":0,\"unfinished_head\":0,\"unread\":0,\"relay\":1302," \
    "\"relay_memory\":0,\"unfinished_call\":0,\"host\":0,\"cross_site\":0,\"grpc_over_http1\":0," \
    "\"unfinished_health\":0," \
    "\"belfry_user\":0,\"malformed_json\":0,\"kube_upgrade\":2015,\"kube_certificate\":0," \
    "\"kube_impersonation\":0,\"kube_circle\":0,\"kube_front\":0,\"kube_relay\":0,\"kube_relay_memory\":0," \
    "\"kube_unfinished\":0,\"kube_unread\":0},\"memory\":{\"log\":268435456,\"watchers\":1009,\"requests\":0," \
    "\"connections\":1204,\"kernel\":1205,\"relay\":0,\"rights\":0,\"kube_forms\":1612,\"kube_watches\":1613," \
    "\"sse_streams\":1911,\"kube_documents\":0,\"kube_relays\":0},\"latency\":{\"buckets\":[0,1,2,3,4,5,6,7," \
    "8,9,10,11,12,13,14,15,16],\"count\":136,\"sum_s\":0.75},\"worker\":{\"position\":48120730,\"turns\":99," \
    "\"longest_turn_us\":1800},\"core\":{\"streams\":1000,\"watchers\":1001,\"nodes\":1002,\"riding\":1003," \
    "\"waiting\":1004,\"boarded\":1005,\"stalled\":1006,\"solo\":1007,\"parked\":1008,\"riding_parked\":3," \
    "\"bytes\":1009,\"batches\":1010,\"deliveries\":1011,\"written\":1012,\"fetches\":1013," \
    "\"rows_swept\":1014,\"handovers\":1015,\"parks\":1016,\"unparks\":1017,\"overslept\":1018,\"cuts\":1019," \
    "\"extents\":1020,\"fragments\":1021,\"packed\":1022,\"compacted\":1023,\"progress\":1024}," \
    "\"watch\":{\"streams\":1100,\"asking\":1101,\"opened\":1102,\"requests\":1113,\"creates\":1114," \
    "\"cancels\":1115,\"progress\":1116,\"refused\":1117,\"expelled\":1118}," \
    "\"inbound\":{\"connections\":1200,\"http1\":1201,\"http2\":1202,\"tls\":1203,\"bytes\":1204," \
    "\"kernel_bytes\":1205,\"accepted\":1206,\"closed\":1207,\"dead\":1208,\"ended_certificates\":1213," \
    "\"refused_handshakes\":0,\"refused_heads\":1214,\"full_handshakes\":0,\"resumed_handshakes\":0," \
    "\"refused_floods\":1209,\"bytes_in\":1210,\"bytes_out\":1211,\"writes\":1212}," \
    "\"relay\":{\"running\":1300,\"relayed\":1301,\"refused\":1302,\"failed\":1303,\"bytes_up\":1304," \
    "\"bytes_down\":1305,\"inquiries\":1306,\"inquiries_relayed\":1307}," \
    "\"reads\":{\"replica_linearizable\":1310,\"replica_serializable\":1311,\"upstream_linearizable\":1312," \
    "\"upstream_serializable\":1313,\"stale\":1314,\"failed\":1315,\"parts\":1316}," \
    "\"permit\":{\"asked\":1400,\"shared\":1409,\"granted\":1401,\"refused\":1402,\"unavailable\":1403," \
    "\"status_calls\":1404,\"tokens\":1405,\"ranges\":1406,\"paused\":1407,\"pauses\":1408}," \
    "\"vouch\":{\"users\":0,\"signed_tokens\":0,\"log_ins\":0,\"failed_log_ins\":0}," \
    "\"uplink\":{\"calls\":1500,\"connections\":1501,\"opened\":1502,\"connects\":1503,\"losses\":1504," \
    "\"unavailable\":1505},\"kube\":{\"watches\":1600,\"held\":1601,\"opened\":1602,\"lines\":1603," \
    "\"bookmarks\":1604,\"expired\":1605,\"refused\":1606,\"too_many\":1607,\"undecodable\":1608," \
    "\"skipped\":1609,\"forms_made\":1610,\"forms_shared\":1611,\"forms_bytes\":1612,\"bytes\":1613," \
    "\"slow\":1614,\"expelled\":1615},\"lists\":{\"active\":1700,\"waiting\":1701,\"lists\":1702," \
    "\"gets\":1703,\"objects\":1704,\"bytes\":1705,\"expired\":1706,\"timeouts\":1707,\"undecodable\":1708," \
    "\"skipped\":1709},\"fence\":{\"asked\":1800,\"questions\":1801,\"failed\":1802}," \
    "\"sse\":{\"streams\":1900,\"opened\":1901,\"messages\":1902,\"snapshots\":1903,\"resets\":1904," \
    "\"later\":1905,\"refused\":1906,\"expelled\":1907,\"slow\":1908,\"forms_made\":1909," \
    "\"forms_shared\":1910,\"bytes\":1911},\"kfront\":{\"answered\":2000,\"running\":2001,\"write\":2002," \
    "\"consistent\":2003,\"form\":2004,\"document\":2005,\"other\":2006,\"watch\":2007,\"copies_sent\":2008," \
    "\"documents\":2009,\"repeated\":2010,\"failed\":2011,\"cut\":2012,\"bytes_up\":2013,\"bytes_down\":2014," \
    "\"refused_upgrades\":2015}," \
    "\"reviews\":{\"token_reviews\":2100,\"access_reviews\":2101,\"bad_tokens\":2102,\"forbidden\":2103," \
    "\"failed\":2104,\"under_way\":2105,\"users\":2106}},"

#define NUMBERS_JSON_WORKERS \
    "\"workers\":[{\"answered\":true,\"position\":48120730,\"turns\":99,\"longest_turn_us\":1800," \
    "\"core\":{\"streams\":1000,\"watchers\":1001,\"nodes\":1002,\"riding\":1003,\"waiting\":1004," \
    "\"boarded\":1005,\"stalled\":1006,\"solo\":1007,\"parked\":1008,\"riding_parked\":3,\"bytes\":1009," \
    "\"batches\":1010,\"deliveries\":1011,\"written\":1012,\"fetches\":1013,\"rows_swept\":1014," \
    "\"handovers\":1015,\"parks\":1016,\"unparks\":1017,\"overslept\":1018,\"cuts\":1019,\"extents\":1020," \
    "\"fragments\":1021,\"packed\":1022,\"compacted\":1023,\"progress\":1024},\"watch\":{\"streams\":1100," \
    "\"asking\":1101,\"opened\":1102,\"requests\":1113,\"creates\":1114,\"cancels\":1115,\"progress\":1116," \
    "\"refused\":1117,\"expelled\":1118,\"closed\":{\"peer\":1103,\"deadline\":1104,\"no_leader\":1105," \
    "\"not_ready\":1106,\"drain\":1107,\"broken\":1108,\"slow\":1109,\"bad_request\":1110,\"memory\":1111," \
    "\"upstream\":1112,\"late\":1113,\"rights\":1114}},\"inbound\":{\"connections\":1200,\"http1\":1201," \
    "\"http2\":1202,\"tls\":1203,\"bytes\":1204,\"kernel_bytes\":1205,\"accepted\":1206,\"closed\":1207," \
    "\"dead\":1208,\"ended_certificates\":1213,\"refused_handshakes\":0,\"refused_heads\":1214," \
    "\"full_handshakes\":0,\"resumed_handshakes\":0,\"refused_floods\":1209,\"bytes_in\":1210," \
    "\"bytes_out\":1211,\"writes\":1212},\"pools\":{\"connections\":{\"used\":1220,\"limit\":2220," \
    "\"refused\":1222,\"ended\":1223,\"largest\":1224,\"client\":\"10.0.0.9\"},\"memory\":{\"used\":1230," \
    "\"limit\":2230,\"refused\":1232,\"ended\":1233,\"largest\":1234,\"client\":\"10.0.0.9\"}," \
    "\"requests\":{\"used\":1240,\"limit\":2240,\"refused\":1242,\"ended\":1243,\"largest\":1244," \
    "\"client\":\"10.0.0.9\"},\"watchers\":{\"used\":1250,\"limit\":2250,\"refused\":1252,\"ended\":1253," \
    "\"largest\":1254,\"client\":\"10.0.0.9\"},\"calls\":{\"used\":1260,\"limit\":2260,\"refused\":1262," \
    "\"ended\":1263,\"largest\":1264,\"client\":\"10.0.0.9\"},\"call_bytes\":{\"used\":1270,\"limit\":2270," \
    "\"refused\":1272,\"ended\":1273,\"largest\":1274,\"client\":\"10.0.0.9\"},\"lists\":{\"used\":1280," \
    "\"limit\":2280,\"refused\":1282,\"ended\":1283,\"largest\":1284,\"client\":\"10.0.0.9\"}," \
    "\"watch_bytes\":{\"used\":1290,\"limit\":2290,\"refused\":1292,\"ended\":1293,\"largest\":1294," \
    "\"client\":\"10.0.0.9\"},\"list_bytes\":{\"used\":1300,\"limit\":2300,\"refused\":1302,\"ended\":1303," \
    "\"largest\":1304," \
    "\"client\":\"10.0.0.9\"}}," \
    "\"relay\":{\"running\":1300,\"relayed\":1301,\"refused\":1302,\"failed\":1303,\"bytes_up\":1304," \
    "\"bytes_down\":1305,\"inquiries\":1306,\"inquiries_relayed\":1307}," \
    "\"reads\":{\"replica_linearizable\":1310,\"replica_serializable\":1311,\"upstream_linearizable\":1312," \
    "\"upstream_serializable\":1313,\"stale\":1314,\"failed\":1315,\"parts\":1316}," \
    "\"permit\":{\"asked\":1400,\"shared\":1409,\"granted\":1401,\"refused\":1402,\"unavailable\":1403," \
    "\"status_calls\":1404,\"tokens\":1405,\"ranges\":1406,\"paused\":1407,\"pauses\":1408}," \
    "\"uplink\":{\"calls\":1500,\"connections\":1501,\"opened\":1502,\"connects\":1503,\"losses\":1504," \
    "\"unavailable\":1505},\"kube\":{\"watches\":1600,\"held\":1601,\"opened\":1602,\"lines\":1603," \
    "\"bookmarks\":1604,\"expired\":1605,\"refused\":1606,\"too_many\":1607,\"undecodable\":1608," \
    "\"skipped\":1609,\"forms_made\":1610,\"forms_shared\":1611,\"forms_bytes\":1612,\"bytes\":1613," \
    "\"slow\":1614,\"expelled\":1615,\"lists\":{\"active\":1700,\"waiting\":1701,\"lists\":1702," \
    "\"gets\":1703,\"objects\":1704,\"bytes\":1705,\"expired\":1706,\"timeouts\":1707,\"undecodable\":1708," \
    "\"skipped\":1709},\"fence\":{\"asked\":1800,\"questions\":1801,\"failed\":1802}}," \
    "\"sse\":{\"streams\":1900,\"opened\":1901,\"messages\":1902,\"snapshots\":1903,\"resets\":1904," \
    "\"later\":1905,\"refused\":1906,\"expelled\":1907,\"slow\":1908,\"forms_made\":1909," \
    "\"forms_shared\":1910,\"bytes\":1911},\"front\":{\"answered\":2000,\"running\":2001,\"write\":2002," \
    "\"consistent\":2003,\"form\":2004,\"document\":2005,\"other\":2006,\"watch\":2007,\"copies_sent\":2008," \
    "\"documents\":2009,\"repeated\":2010,\"failed\":2011,\"cut\":2012,\"bytes_up\":2013,\"bytes_down\":2014," \
    "\"refused_upgrades\":2015}," \
    "\"reviews\":{\"token_reviews\":2100,\"access_reviews\":2101,\"bad_tokens\":2102,\"forbidden\":2103," \
    "\"failed\":2104,\"under_way\":2105,\"users\":2106}," \
    "\"latency\":{\"buckets\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]," \
    "\"count\":136,\"sum_s\":0.75}},{\"answered\":false}]}\n"
/* clang-format on */

static inline const char *numbers_json(void)
{
    static char text[sizeof(NUMBERS_JSON_TIER) + sizeof(NUMBERS_JSON_CHECKS) + sizeof(NUMBERS_JSON_SUMMARY) +
                     sizeof(NUMBERS_JSON_WORKERS)];
    snprintf(text, sizeof(text), "%s%s%s%s", NUMBERS_JSON_TIER, NUMBERS_JSON_CHECKS, NUMBERS_JSON_SUMMARY,
             NUMBERS_JSON_WORKERS);
    return text;
}

#endif
