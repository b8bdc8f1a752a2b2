import sys, json, time
from collections import Counter, defaultdict
from pathlib import Path
from tests.advice.models import gather
from tests.advice.asked import Service
from tests.advice.rows import read_rows
from tests.advice.judging import judge, Judgement
t=time.time()
svc=Service(gather(Path(sys.argv[2])))
rows=read_rows(Path(sys.argv[1]),'rows.jsonl')
js=[judge(r,svc,{}) for r in rows]
print('seconds',time.time()-t)
c=Counter((j.row['tier'],j.judgement.value) for j in js)
for k,v in sorted(c.items()): print(*k,v,sep=' | ')
unk=Counter(n for j in js for n in j.command.unknown)
print('unknown flags',unk)
for want in (Judgement.FALSE_REFUSAL,Judgement.FALSE_START,Judgement.FORESEEN,Judgement.NOT_MODELLED,Judgement.UNCERTAIN):
    g=defaultdict(list)
    for j in js:
        if j.judgement is want: g[j.cause].append(j)
    print('\n=====',want.value,sum(map(len,g.values())))
    for cause,l in sorted(g.items(),key=lambda kv:-len(kv[1])):
        print(f'\n## {len(l)} x {cause}   tiers:',dict(Counter(j.row['tier'] for j in l)))
        if want in(Judgement.FALSE_REFUSAL,Judgement.FALSE_START,Judgement.FORESEEN):
            for j in l:
                r=j.row
                print(f"  {r['id']} [{r['tier']}] {r['model']} {r['gpus']}x{r['gpu']} {r['version']} tp{r['tp']} pp{r['pp']} dp{r['dp']} cfg={(j.config or '')[:40]} draftout={j.draft_left_out} serve={json.dumps(j.command.serve)} nm={j.command.not_modelled}")
                if j is l[0] or want is Judgement.FALSE_REFUSAL: print('      ',j.words[:420])
        else:
            print('  ',' '.join(j.row['id'] for j in l[:40]), dict(Counter(j.row['model'] for j in l).most_common(6)))
