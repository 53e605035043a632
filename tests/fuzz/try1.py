import sys, time, collections, json
from fuzz.outcome import judged, little_memory
from fuzz import values
which, a, b = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
c=collections.Counter(); e=collections.defaultdict(list); t=[]
with little_memory():
    for seed in range(a,b):
        o=judged(getattr(values,which)(seed))
        c[o.kind]+=1; t.append((o.seconds,seed))
        if o.where: e[o.kind+' '+o.where].append(seed)
t.sort()
print(c, [t[int(len(t)*q)] for q in (.5,.9,.99)], t[-5:])
for k,v in sorted(e.items(), key=lambda kv:-len(kv[1])): print(len(v),k,v[:4])
