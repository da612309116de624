# Rules for rendered manifests beyond their schemas. Input: all objects of one folder, and the
# folder as $folder. Output: the text of each broken rule. Called by .ci/manifests.

def kind($kind): .[] | select(.kind == $kind);
def object($kind; $name): first(kind($kind) | select(.metadata.name == $name));
def has_object($kind; $name): any(kind($kind); .metadata.name == $name);
# A condition without a value breaks its rule too. The path of a missing object has no value.
def rule($text; condition): if [condition] == [true] then empty else $text end;

# The pod of each Deployment and Job, with its name, labels, spec and only container.
def pods: [(kind("Deployment"), kind("Job"))
  | {name: .metadata.name, labels: .spec.template.metadata.labels, spec: .spec.template.spec,
     container: .spec.template.spec.containers[0], annotations: .spec.template.metadata.annotations}];
def flag($name): first(.container.args[]? | select(startswith("--\($name)=")) | ltrimstr("--\($name)=")) // null;
def variable($name): first(.container.env[]? | select(.name == $name).value) // null;
def reads($name): any(.container.env[]?; .name == $name);
def port($name): first(.container.ports[]? | select(.name == $name)).containerPort;

# True if a selector selects these labels.
def selects($labels):
  ((.matchLabels // {}) | to_entries | all(.[]; . as $pair | $labels[$pair.key] == $pair.value))
  and all(.matchExpressions[]?; . as $one | $one.operator == "In" and any($one.values[]; . == $labels[$one.key]));

# True if a peer of a network policy is this end of a connection: a pod, {namespace}, {cidr}, or {}
# for any other address.
def is_peer($peer):
  if .podSelector then $peer.labels != null and (.podSelector | selects($peer.labels))
  elif .namespaceSelector then
    $peer.namespace != null and (.namespaceSelector | selects({"kubernetes.io/metadata.name": $peer.namespace}))
  else .ipBlock.cidr == $peer.cidr end;
# True if the policies of a pod permit a connection from or to the other end.
def permits($direction; $peers; $pod; $other; $to; $port; $protocol):
  [kind("NetworkPolicy").spec | select(any(.policyTypes[]; . == $direction) and (.podSelector | selects($pod.labels)))]
  | length == 0 or any(.[][$direction | ascii_downcase][]?;
      ((.[$peers] // []) | length == 0 or any(.[]; is_peer($other)))
      and any(.ports[]; (.protocol // "TCP") == $protocol
        and (.port == $port or (.port | type == "string" and . as $name | ($to | port($name)) == $port))));
def passes($from; $to; $port; $protocol):
  ($from.labels == null or permits("Egress"; "to"; $from; $to; $to; $port; $protocol))
  and ($to.labels == null or permits("Ingress"; "from"; $to; $from; $to; $port; $protocol));
def tcp($from; $to; $port): passes($from; $to; $port; "TCP");

def rules_of_pod($pod): . as $objects |
  $pod.spec as $spec | $pod.container as $container |
  rule("has one container"; $spec.containers | length == 1),
  rule("meets the restricted standard";
    $spec.securityContext.runAsNonRoot and $spec.securityContext.runAsUser > 0
    and $spec.securityContext.seccompProfile.type == "RuntimeDefault"
    and $container.securityContext
      == {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: ["ALL"]}}
    and ([$spec.hostNetwork, $spec.hostPID, $spec.hostIPC] | all(.[]; . == null))
    and all($spec.volumes[]?; .hostPath == null)),
  rule("has a memory limit"; $container.resources.limits.memory != null),
  rule("gets no variables of Services"; $spec.enableServiceLinks == false),
  rule("spreads over machines without labels of zones, and leaves a dead one soon";
    $pod.name == "mesh-load" or (
      ([$spec.topologySpreadConstraints[] | .topologyKey] == ["kubernetes.io/hostname"])
      and ([$spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[]
        | select(.podAffinityTerm.labelSelector | selects($pod.labels)).podAffinityTerm.topologyKey]
        == ["topology.kubernetes.io/zone"])
      and ([$spec.tolerations[] | select(.effect == "NoExecute" and .tolerationSeconds <= 10).key] | sort
        == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]))),
  rule("runs a version of its image"; $container.image | test(":[^:/]+$") and (endswith(":latest") | not)),
  rule("mounts an API token only for discovery";
    $spec.automountServiceAccountToken == ($pod | flag("discovery") != null)),
  rule("opens the ports that it declares";
    ([$pod | flag("listen", "internal-listen", "public-listen") | values | split(":")[-1] | tonumber] as $opened
    | $opened == [] or ($opened | sort) == ([$container.ports[].containerPort] | sort))),
  rule("has a Service and a network policy for each port";
    all($container.ports[]?.name; . as $name | $name
      | any($objects | kind("Service").spec; ({matchLabels: .selector} | selects($pod.labels))
          and any(.ports[]; .targetPort == $name))
        and any($objects | kind("NetworkPolicy").spec; (.podSelector | selects($pod.labels))
          and any(.ingress[]?.ports[]?; .port == $name)))),
  rule("answers probes and scraping on the internal port";
    all(($container.readinessProbe, $container.livenessProbe, $container.startupProbe) | values;
      .httpGet.port == "internal")
    and (($pod.annotations["prometheus.io/port"] // "7900") == "7900")),
  rule("has a grace period longer than its longest drain";
    ($pod | variable("SIGNALING_DRAIN_MS")) as $drain_ms | $drain_ms == null
    or $spec.terminationGracePeriodSeconds
      >= ($drain_ms | tonumber) / 1000 + ($container.lifecycle.preStop.sleep.seconds // 0) + 5);

# The Secret that `make deploy` creates has these keys.
def KEYS: ["mesh-secret", "hash-seed", "admin-token"];

def rules_of_mesh: . as $objects |
  (pods | map({key: .name, value: .}) | from_entries) as $pods
  | $pods["signaling-nodes"] as $node | $pods["signaling-balancers"] as $balancer
  | {namespace: "monitoring"} as $monitoring | {namespace: "kube-system"} as $dns | {namespace: "default"} as $other
  | {cidr: "192.0.2.0/24"} as $journal | {} as $world |
  rule("clients need tokens, except in the overlay for kind";
    ($folder == "deploy/overlays/kind") as $is_open
    | ($balancer | reads("SIGNALING_ALLOW_ANONYMOUS")) == $is_open
      and ($balancer | reads("SIGNALING_TOKEN_KEY_FILE")) == ($is_open | not)),
  rule("servers find the nodes by the headless Service of the nodes";
    all($node, $balancer; flag("discovery") == "kubernetes:$(POD_NAMESPACE)/signaling-nodes:internal")
    and (object("Service"; "signaling-nodes").spec | .clusterIP == "None" and .publishNotReadyAddresses == null
      and ({matchLabels: .selector} | selects($node.labels)) and .ports[0].name == "internal")),
  rule("balancers find each other even if they are unready";
    ($balancer | flag("balancer-discovery")) as $source | $source == null
    or $source == "kubernetes:$(POD_NAMESPACE)/signaling-balancers:internal"
      and tcp($balancer; $balancer; 7900)
      and object("Service"; "signaling-balancers").spec.publishNotReadyAddresses),
  rule("policies let servers reach servers, DNS and the API server";
    all($node, $balancer; . as $server
      | all($node, $balancer; . as $to | $objects | tcp($server; $to; 7900))
        and ($objects | tcp($server; $world; 443) and tcp($server; $world; 6443)
          and tcp($server; $dns; 53) and passes($server; $dns; 53; "UDP")))),
  rule("policies let monitoring reach servers, and clients reach balancers";
    tcp($monitoring; $node; 7900) and tcp($monitoring; $balancer; 7900)
    and tcp($world; $balancer; 8080) and tcp($other; $balancer; 8080)),
  rule("policies let nothing else reach the internal listeners, and servers reach nothing else";
    all($node, $balancer; . as $server | $objects
      | tcp($world; $server; 7900) or tcp($other; $server; 7900)
        or tcp($server; $world; 80) or tcp($server; $other; 7900) or tcp($server; {cidr: "192.0.3.0/24"}; 6379) | not)),
  rule("only nodes reach a room journal, and only if they use one";
    tcp($node; $journal; 6379) == ($node | reads("SIGNALING_ROOM_JOURNAL")) and (tcp($balancer; $journal; 6379) | not)),
  rule("selectors select pods that exist, and Services ports that they have";
    all(kind("Deployment").spec; .template.metadata.labels as $labels | .selector | selects($labels))
    and all(kind("Service").spec; . as $service | [$pods[] | select(.labels as $labels
      | {matchLabels: $service.selector} | selects($labels))]
      | length == 1 and (.[0].container.ports as $ports | all($service.ports[].targetPort; IN($ports[].name))))
    and all(kind("PodDisruptionBudget").spec; .selector as $selector
      | any($pods[]; .labels as $labels | $selector | selects($labels)))),
  rule("Deployments start with the minimum of their autoscalers, which scale down slowly";
    all("signaling-nodes", "signaling-balancers"; . as $name | $objects
      | object("HorizontalPodAutoscaler"; $name).spec as $autoscaler | object("Deployment"; $name).spec as $deployment
      | $autoscaler.scaleTargetRef.name == $name and $deployment.replicas == $autoscaler.minReplicas
        and ($folder == "deploy/overlays/kind" or $autoscaler.behavior.scaleDown.stabilizationWindowSeconds >= 300)
        and $pods[$name].container.resources.requests.cpu != null)),
  rule("servers may list and watch EndpointSlices of their namespace, and nothing else";
    [(kind("Role"), kind("ClusterRole")).rules]
      == [[{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"]}]]
    and [object("RoleBinding"; "signaling").subjects[].name]
      == [$node.spec.serviceAccountName, $balancer.spec.serviceAccountName]),
  rule("the label of the runbook's restore command selects what discovery needs, and no Deployment";
    [.[] | select(.metadata.labels["app.kubernetes.io/component"] == "discovery").kind] | unique
      == ["Role", "RoleBinding", "Service", "ServiceAccount"]),
  rule("the namespace enforces the restricted standard";
    all(kind("Namespace"); .metadata.labels["pod-security.kubernetes.io/enforce"] == "restricted")),
  rule("pods read keys that the Secret has, and files that are mounted";
    all($pods[]; [.spec.volumes[]?.secret.items[]?.key] as $files
      | all($files[], .container.env[]?.valueFrom.secretKeyRef.key; . == null or IN(KEYS[]))
        and all(flag("mesh-secret-file", "hash-seed-file", "admin-token-file") | values;
          ltrimstr("/run/secrets/signaling/") | IN($files[]))));

(pods[] as $pod | rules_of_pod($pod) | "\($pod.name): \(.)"),
(if has_object("Deployment"; "signaling-nodes") then rules_of_mesh else empty end)
